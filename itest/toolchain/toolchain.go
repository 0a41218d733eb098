// Package toolchain finds the programs that tests of other languages need and, as root on Debian and Ubuntu, installs them.
package toolchain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Tool is a program that a test needs, and the Debian packages that bring it.
type Tool struct {
	Name     string
	Packages []string
}

// Chain finds tools and installs what is missing.
type Chain struct {
	updated bool
}

// Need makes sure that all tools are there. It never lets a test go on without one.
func (t *Chain) Need(ctx context.Context, tools []Tool) error {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.Name); err == nil {
			continue
		}
		if err := t.Install(ctx, tool); err != nil {
			return err
		}
	}
	return nil
}

// Install installs a tool, whether it is there or not.
func (t *Chain) Install(ctx context.Context, tool Tool) error {
	packages := strings.Join(tool.Packages, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%s is not installed: install %s (on Debian and Ubuntu: apt-get install %s), or run as root there",
			tool.Name, tool.Name, packages)
	}
	fmt.Printf("installing %s for %s\n", packages, tool.Name)
	if !t.updated {
		if out, err := exec.CommandContext(ctx, "apt-get", "update", "-q").CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get update, to install %s: %w: %s", packages, err, out)
		}
		t.updated = true
	}
	args := append([]string{"install", "-y", "-q", "--no-install-recommends"}, tool.Packages...)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get install %s: %w: %s", packages, err, out)
	}
	if _, err := exec.LookPath(tool.Name); err != nil {
		return errors.Join(fmt.Errorf("packages %s are installed, %s is not there", packages, tool.Name), err)
	}
	return nil
}
