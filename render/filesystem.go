// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// mount is where kustomize, which thinks in absolute paths, sees the root of
// the tree. It is not "/", so that a path that climbs too far is seen to leave.
const mount = "/repository"

// maxFile bounds one file; the API server takes no object near this size.
const maxFile = 16 << 20

var (
	errReadOnly  = errors.New("the tree is read-only")
	errDirectory = errors.New("is a directory")
)

// filesystem shows a tree to kustomize. Reads are remembered, so that a build
// sees one state of each file, and fail once the build is given up.
type filesystem struct {
	tree      fs.FS
	decryptor Decryptor
	alive     func() error       // the error of the build's context
	read      map[string]content // by path in the tree
	inputs    inputs
	encrypted map[string][]string // values that were, by file, and that no error may show
}

type content struct {
	data []byte
	err  error
}

func newFilesystem(ctx context.Context, j job) *filesystem {
	return &filesystem{tree: j.tree, decryptor: j.decryptor, alive: ctx.Err, read: map[string]content{}, inputs: inputs{}, encrypted: map[string][]string{}}
}

// overlay makes a file of the tree appear with other content.
func (f *filesystem) overlay(name string, data []byte) {
	f.read[name] = content{data: data}
}

// load reads a file by its path in the tree.
func (f *filesystem) load(name string) ([]byte, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	c, ok := f.read[name]
	if !ok {
		c.data, c.err = readFile(f.tree, name)
		f.inputs[question{contentOf, name}] = digest(c.data, c.err)
		if c.err == nil {
			c.data, c.err = f.decrypt(name, c.data)
		}
		f.read[name] = c
	}
	return c.data, c.err
}

func (f *filesystem) decrypt(name string, data []byte) ([]byte, error) {
	if f.decryptor == nil {
		return data, nil
	}
	plain, values, err := f.decryptor.Decrypt(name, data)
	if err != nil {
		return nil, &DecryptError{err}
	}
	if len(values) > 0 {
		f.encrypted[name] = values
	}
	return plain, nil
}

func readFile(tree fs.FS, name string) ([]byte, error) {
	file, err := tree.Open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return nil, reason(err)
	} else if info.IsDir() {
		return nil, errDirectory
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, reason(err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("is larger than %d MiB", maxFile>>20)
	}
	return data, nil
}

// stat follows symbolic links, as far as the tree does.
func (f *filesystem) stat(name string) (fs.FileInfo, error) {
	if err := f.alive(); err != nil {
		return nil, err
	}
	info, err := fs.Stat(f.tree, name)
	f.inputs[question{kindOf, name}] = kind(info, err)
	if err != nil {
		return nil, reason(err)
	}
	return info, nil
}

func (f *filesystem) readDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.tree, name)
	f.inputs[question{entriesOf, name}] = listing(entries, err)
	if err != nil {
		return nil, reason(err)
	}
	return entries, nil
}

// reason strips the operation and the path from a file error: the caller says
// both in its own words. What os.Root answers for a path that escapes has no
// exported value to compare with.
func reason(err error) error {
	pathErr, ok := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing{err}
	case !ok:
		return err
	case strings.Contains(pathErr.Err.Error(), "escapes"):
		return fmt.Errorf("leaves the repository: %w", pathErr.Err)
	default:
		return pathErr.Err
	}
}

// missing is a file that does not exist, said plainly.
type missing struct{ error }

func (missing) Error() string   { return "does not exist" }
func (m missing) Unwrap() error { return m.error }

// inTree maps a path of kustomize to one of the tree.
func inTree(name string) (string, error) {
	clean := path.Clean(filepath.ToSlash(name))
	if clean == mount {
		return ".", nil
	}
	if rest, ok := strings.CutPrefix(clean, mount+"/"); ok {
		return rest, nil
	}
	return "", fmt.Errorf("%s: leaves the repository", name)
}

func mounted(name string) string { return path.Join(mount, name) }

func (f *filesystem) ReadFile(name string) ([]byte, error) {
	inside, err := inTree(name)
	if err != nil {
		return nil, err
	}
	data, err := f.load(inside)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inside, err)
	}
	return data, nil
}

func (f *filesystem) IsDir(name string) bool {
	_, file, err := f.CleanedAbs(name)
	return err == nil && file == ""
}

func (f *filesystem) Exists(name string) bool {
	_, _, err := f.CleanedAbs(name)
	return err == nil
}

// CleanedAbs leaves symbolic links as they are: the tree follows them itself
// and refuses those that leave it.
func (f *filesystem) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	inside, err := inTree(name)
	if err != nil {
		return "", "", err
	}
	info, err := f.stat(inside)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", inside, err)
	}
	if info.IsDir() {
		return filesys.ConfirmedDir(mounted(inside)), "", nil
	}
	dir, file := path.Split(mounted(inside))
	return filesys.ConfirmedDir(path.Clean(dir)), file, nil
}

// The rest of filesys.FileSystem is for commands that edit.

func (f *filesystem) Create(string) (filesys.File, error)  { return nil, errReadOnly }
func (f *filesystem) Open(string) (filesys.File, error)    { return nil, errReadOnly }
func (f *filesystem) Mkdir(string) error                   { return errReadOnly }
func (f *filesystem) MkdirAll(string) error                { return errReadOnly }
func (f *filesystem) RemoveAll(string) error               { return errReadOnly }
func (f *filesystem) WriteFile(string, []byte) error       { return errReadOnly }
func (f *filesystem) Glob(string) ([]string, error)        { return nil, errReadOnly }
func (f *filesystem) ReadDir(string) ([]string, error)     { return nil, errReadOnly }
func (f *filesystem) Walk(string, filepath.WalkFunc) error { return errReadOnly }
