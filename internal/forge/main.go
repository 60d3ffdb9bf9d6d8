// SPDX-License-Identifier: Apache-2.0

// Command gitea is Gitea, for tests: its own program with a database driver that
// needs no C compiler. It answers what the real one answers.
package main

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"strings"
	"time"

	"code.gitea.io/gitea/cmd"
	"code.gitea.io/gitea/modules/log"
	_ "code.gitea.io/gitea/modules/markup/markdown" // what descriptions are shown with
	"code.gitea.io/gitea/modules/setting"
	"modernc.org/sqlite"
)

// version is set when it is built.
var version = "development"

func main() {
	sql.Register("sqlite3", pure{})
	setting.EnableSQLite3 = true
	setting.SupportedDatabaseTypes = append(setting.SupportedDatabaseTypes, "sqlite3")
	setting.AppVer, setting.AppStartTime = version, time.Now().UTC()

	err := cmd.RunMainApp(cmd.NewMainApp(cmd.AppVersion{Version: version}), os.Args...)
	log.GetManager().Close() // what is queued for the log would be lost
	if err != nil {
		os.Exit(1)
	}
}

// pure opens a database that Gitea describes as the driver in C wants it.
type pure struct{ sqlite.Driver }

func (p pure) Open(name string) (driver.Conn, error) {
	file, _, ok := strings.Cut(name, "?")
	if !ok {
		return nil, fmt.Errorf("open database %s: no options", name)
	}
	return p.Driver.Open(file + "?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
}
