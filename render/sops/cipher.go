// SPDX-License-Identifier: Apache-2.0

package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var (
	errNotSealed = errors.New("is not encrypted, and by the rules of this file it should be: encrypt it again")
	errTampered  = errors.New("was changed after it was encrypted; edit it with sops")
)

// remark is what a value turns out to be that was a comment before.
type remark string

// dataCipher opens values with the key of one file.
type dataCipher struct{ block cipher.Block }

// keySize is the size of a data key.
const keySize = 32

func newCipher(key []byte) (dataCipher, error) {
	if len(key) != keySize {
		return dataCipher{}, fmt.Errorf("its data key has %d bytes, want %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	return dataCipher{block}, err
}

var sealedValue = regexp.MustCompile(`^ENC\[AES256_GCM,data:([^,]+),iv:([^,]+),tag:([^,]+),type:([a-z]+)\]$`)

// open decrypts one value, which is bound to the place where it stands. It
// answers a string, int, float64, bool, time.Time or remark.
func (c dataCipher) open(text, place string) (any, error) {
	if text == "" {
		return "", nil // SOPS leaves it as it is
	}
	m := sealedValue.FindStringSubmatch(text)
	if m == nil {
		return nil, errNotSealed
	}
	var raw [3][]byte
	for i := range raw {
		var err error
		if raw[i], err = base64.StdEncoding.DecodeString(m[i+1]); err != nil {
			return nil, errTampered
		}
	}
	data, nonce, tag := raw[0], raw[1], raw[2]
	gcm, err := cipher.NewGCMWithNonceSize(c.block, len(nonce))
	if err != nil {
		return nil, errTampered
	}
	plain, err := gcm.Open(nil, nonce, append(data, tag...), []byte(place))
	if err != nil {
		return nil, errTampered
	}
	v, err := typed(string(plain), m[4])
	if err != nil {
		return nil, fmt.Errorf("is no %q that can be read", m[4])
	}
	return v, nil
}

// typed reads a value as SOPS wrote it.
func typed(text, kind string) (any, error) {
	switch kind {
	case "str", "bytes":
		return text, nil
	case "int":
		return strconv.Atoi(text)
	case "float":
		return strconv.ParseFloat(text, 64)
	case "bool":
		return strconv.ParseBool(text)
	case "time":
		var t time.Time
		err := t.UnmarshalText([]byte(text))
		return t, err
	case "comment":
		return remark(text), nil
	default:
		return nil, errors.New("unknown type")
	}
}

// bytesOf is how a value counts for the MAC.
func bytesOf(v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return []byte(v), nil
	case int:
		return strconv.AppendInt(nil, int64(v), 10), nil
	case float64:
		return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
	case bool:
		if v {
			return []byte("True"), nil
		}
		return []byte("False"), nil
	case time.Time:
		return v.MarshalText()
	default:
		return nil, errors.New("is of a type that SOPS does not encrypt")
	}
}
