package toolchain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// HashFiles is a sum over the names and contents of all files below dir: it tells whether what is made of them has to be built again.
func HashFiles(dir string) (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", path, len(content))
		sum.Write(content)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// BuildMaven compiles a Maven project into dir/classes and copies the jars that it needs into dir/lib; not again while none of its files
// changed. The project's pom.xml takes its output directory from the property output; more are further arguments of mvn.
func BuildMaven(ctx context.Context, project, dir string, more ...string) error {
	sum, err := HashFiles(project)
	if err != nil {
		return err
	}
	stamp := filepath.Join(dir, "built")
	if built, err := os.ReadFile(stamp); err == nil && string(built) == sum {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", append(more, "-q", "-B", "-f", filepath.Join(project, "pom.xml"), "-Doutput="+dir, "compile")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn compile: %w: %s", err, out)
	}
	return os.WriteFile(stamp, []byte(sum), 0o644)
}
