package servers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// mysqld runs MySQL or MariaDB from local binaries. Its folder of binaries is the one that bin, sbin and share lie in.
type mysqld struct {
	flavour, version string
	settings         []string
}

func (m *mysqld) daemon() string {
	if m.flavour == "mariadb" {
		return "sbin/mariadbd"
	}
	return "sbin/mysqld"
}

// folder is where packages are unpacked below .cache.
func (m *mysqld) folder() string { return m.flavour + m.version }

func (m *mysqld) find(ctx context.Context, logf func(string, ...any)) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if bin := m.installed(ctx, root); bin != "" {
		return bin, nil
	}
	if !have("apt-get") {
		return "", fmt.Errorf("no %s %s server: start a Docker daemon, or install its package", m.flavour, m.version)
	}
	if !have("patchelf") {
		if os.Geteuid() != 0 {
			return "", fmt.Errorf("no %s %s server: start a Docker daemon, or install patchelf, with which one is unpacked", m.flavour, m.version)
		}
		if out, err := exec.CommandContext(ctx, "sh", "-c", "apt-get update -q && apt-get install -y -q patchelf").CombinedOutput(); err != nil {
			return "", fmt.Errorf("install patchelf with apt: %w: %s", err, lastLine(out))
		}
	}
	suite, packages := "sid", []string{"mysql-server-core"}
	if m.flavour == "mariadb" {
		suite = map[string]string{"10.11": "bookworm", "11.8": "trixie"}[m.version]
		packages = []string{"mariadb-server-core", "mariadb-client-core", "mariadb-client"} // mariadb-binlog is in the last
	}
	if err := unpack(ctx, root, logf, suite, m.folder(), packages...); err != nil {
		return "", err
	}
	if bin := m.installed(ctx, root); bin != "" {
		return bin, nil
	}
	return "", fmt.Errorf("no %s %s in the packages of Debian %s: start a Docker daemon", m.flavour, m.version, suite)
}

// installed looks for the version in the system, then for what was unpacked.
func (m *mysqld) installed(ctx context.Context, root string) string {
	for _, dir := range []string{"/usr", filepath.Join(root, ".cache", m.folder(), "usr")} {
		out, err := exec.CommandContext(ctx, filepath.Join(dir, m.daemon()), "--no-defaults", "--version").Output()
		if err == nil && strings.Contains(string(out), " "+m.version+".") {
			return dir
		}
	}
	return ""
}

// common are the options that tell a server where its files are.
func (m *mysqld) common(l *local) []string {
	share := filepath.Join(l.bin, "share/mysql")
	if dir := filepath.Join(l.bin, "share/mariadb"); m.flavour == "mariadb" {
		if _, err := os.Stat(dir); err == nil {
			share = dir
		}
	}
	return []string{
		"--no-defaults", "--basedir=" + l.bin, "--lc-messages-dir=" + share, "--character-sets-dir=" + filepath.Join(share, "charsets"),
		"--plugin-dir=" + filepath.Join(l.bin, "lib/mysql/plugin"), "--datadir=" + l.data(),
		"--tmpdir=" + l.dir, // a server that starts removes the temporary tables of all that share its directory
	}
}

func (m *mysqld) prepare(ctx context.Context, l *local) error {
	user := "CREATE USER"
	if m.flavour == "mariadb" {
		user = "CREATE OR REPLACE USER" // root@127.0.0.1 exists
	}
	sql := fmt.Sprintf("SET SESSION sql_log_bin = 0;\n%s '%s'@'127.0.0.1' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO '%s'@'127.0.0.1' WITH GRANT OPTION;\n",
		user, mysqlUser, mysqlPassword, mysqlUser)
	if err := os.WriteFile(m.initFile(l), []byte(sql), 0o644); err != nil {
		return err
	}
	if m.flavour == "mysql" {
		return l.run(ctx, m.daemon(), append(m.common(l), "--initialize-insecure", "--init-file="+m.initFile(l))...)
	}
	options := m.common(l)
	install := []string{options[0], options[1], options[2], options[5], options[6], "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"}
	return l.run(ctx, "bin/mariadb-install-db", install...)
}

func (m *mysqld) initFile(l *local) string { return filepath.Join(l.dir, "init.sql") }

func (m *mysqld) serve(l *local) (string, []string) {
	args := append(m.common(l), "--socket="+filepath.Join(l.dir, "s"), "--pid-file="+filepath.Join(l.dir, "pid"),
		"--port="+strconv.Itoa(l.port), "--bind-address=127.0.0.1")
	if m.flavour == "mariadb" {
		args = append(args, "--init-file="+m.initFile(l))
	}
	return m.daemon(), append(args, m.settings...)
}

func (m *mysqld) signal(how Shutdown) syscall.Signal {
	if how == Immediate {
		return syscall.SIGKILL
	}
	return syscall.SIGTERM
}
