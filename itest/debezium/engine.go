package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/rowtrail/rowtrail/itest/toolchain"
)

const (
	endTimeout  = 120 * time.Second // for what is written to arrive
	javaMemory  = "-Xmx1g"
	lineBytes   = 1 << 20
	engineLines = 1 << 14 // events that wait to be read
)

// profile of the Java project that has a server's connector.
func profile(server string) string {
	if server == serverMariaDB {
		return toolchain.DebeziumMariaDB
	}
	return toolchain.DebeziumPostgresMySQL
}

// engine is the process that runs Debezium's engine for one capture after the other.
type engine struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	log    *os.File
	events chan engineEvent
}

// engineEvent is one line of the program.
type engineEvent struct {
	Topic   string
	Plain   engineRecord // without schemas
	Schemas engineRecord // with them
	End     bool
	Error   string
	// Properties are the names that a connector has, where they were asked for.
	Properties []string
}

type engineRecord struct {
	Key, Value json.RawMessage
	Headers    map[string]json.RawMessage
}

func startEngine(ctx context.Context, dir, logFile string) (*engine, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	e := &engine{log: log, events: make(chan engineEvent, engineLines)}
	e.cmd = exec.CommandContext(ctx, "java", "-XX:+UseSerialGC", javaMemory, "-Duser.timezone=UTC",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", toolchain.DebeziumClasses(dir), "rowtrail.debezium.Capture")
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	e.cmd.Stderr = log
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := e.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start java: %w", err), log.Close())
	}
	go e.read(out)
	return e, nil
}

// read passes the program's lines on; the channel is closed at their end.
func (e *engine) read(out io.Reader) {
	defer close(e.events)
	lines := bufio.NewReaderSize(out, lineBytes)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var event engineEvent
		if err := json.Unmarshal(line, &event); err != nil {
			event = engineEvent{End: true, Error: fmt.Sprintf("a line that cannot be read: %v: %.300s", err, line)}
		}
		e.events <- event
	}
}

// capture tells the program to run one capture until a record of the topic until.
func (e *engine) capture(props map[string]string, until string) error {
	all := maps.Clone(props)
	all["capture.until"] = until
	return e.tell(all)
}

func (e *engine) tell(props map[string]string) error {
	line, err := json.Marshal(props)
	if err != nil {
		return err
	}
	_, err = e.in.Write(append(line, '\n'))
	return err
}

// properties asks for the names of a connector's properties.
func (e *engine) properties(ctx context.Context, connector string) ([]string, error) {
	if err := e.tell(map[string]string{"capture.properties": connector}); err != nil {
		return nil, err
	}
	event, err := e.next(ctx, time.Now().Add(endTimeout))
	return event.Properties, err
}

// next waits for an event.
func (e *engine) next(ctx context.Context, deadline time.Time) (engineEvent, error) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case event, ok := <-e.events:
		if !ok {
			return event, fmt.Errorf("the Java program has ended; its log is %s", e.log.Name())
		}
		if event.Error != "" {
			return event, fmt.Errorf("the engine of Debezium ended: %s; its log is %s", event.Error, e.log.Name())
		}
		return event, nil
	case <-timer.C:
		return engineEvent{}, fmt.Errorf("events of Debezium did not arrive in time; its log is %s", e.log.Name())
	case <-ctx.Done():
		return engineEvent{}, ctx.Err()
	}
}

func (e *engine) close() error {
	_ = e.in.Close()
	err := e.cmd.Process.Kill()
	for range e.events {
		continue
	}
	_ = e.cmd.Wait()
	return errors.Join(err, e.log.Close())
}
