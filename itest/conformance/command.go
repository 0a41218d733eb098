package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// maxLine is the longest line of a client's output that is read.
const maxLine = 16 << 20

// Command is a client's process. Its lines go to each as they come and, all of them, to a log file.
type Command struct {
	cmd   *exec.Cmd
	lines sync.WaitGroup
	mu    sync.Mutex // guards each against standard output and standard error at once
	log   *os.File
}

// start runs a client in dir; each, when not nil, is called with every line of its standard output. The process dies
// with this one, and when ctx ends.
func start(ctx context.Context, dir, logName string, each func(line string), argv ...string) (*Command, error) {
	log, err := os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	c := &Command{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), log: log}
	c.cmd.Dir = dir
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", argv[0], err), log.Close())
	}
	c.lines.Add(2)
	go c.read(stdout, each)
	go c.read(stderr, nil)
	return c, nil
}

func (c *Command) read(from io.Reader, each func(string)) {
	defer c.lines.Done()
	scanner := bufio.NewScanner(from)
	scanner.Buffer(make([]byte, 0, 64<<10), maxLine)
	for scanner.Scan() {
		c.mu.Lock()
		fmt.Fprintln(c.log, scanner.Text())
		if each != nil {
			each(scanner.Text())
		}
		c.mu.Unlock()
	}
	io.Copy(io.Discard, from)
}

// Wait waits for the end; its error is nil for exit code 0.
func (c *Command) Wait() error {
	c.lines.Wait()
	return errors.Join(c.cmd.Wait(), c.log.Close())
}

// Kill ends the process with SIGKILL and waits for its end.
func (c *Command) Kill() error { return c.end(syscall.SIGKILL) }

// Stop ends the process with SIGTERM and waits for its end.
func (c *Command) Stop() error { return c.end(syscall.SIGTERM) }

func (c *Command) end(sig syscall.Signal) error {
	if err := c.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", c.cmd.Path, err)
	}
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// output runs a client to its end and returns all it printed.
func output(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w", argv[0], err)
	}
	return string(out), nil
}
