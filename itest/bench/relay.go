package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rowtrail/rowtrail/itest/toolchain"
)

const (
	relayStop = 40 * time.Second
	// relayCache keeps the compiled programs; make debezium has them there, too.
	relayCache = ".cache/debezium/java"
)

// relay is Debezium's engine, which writes to a broker. It keeps its offsets in a file, and goes on from there at its next start.
type relay struct {
	classes string
	props   map[string]string
	logFile string

	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan error
}

// newRelay builds the program and sets the engine up as Kafka Connect does where a connector sets nothing, but that it polls at once, and
// writes JSON without schemas, as Rowtrail does.
func newRelay(ctx context.Context, b *mysqlBed) (*relay, error) {
	dir, err := filepath.Abs(relayCache)
	if err != nil {
		return nil, err
	}
	if err := toolchain.BuildDebezium(ctx, ".", dir, toolchain.DebeziumPostgresMySQL); err != nil {
		return nil, err
	}
	r := &relay{classes: toolchain.DebeziumClasses(dir), props: b.properties(), logFile: filepath.Join(b.dir, "debezium.log")}
	for k, v := range map[string]string{
		"name": "bench", "connector.class": "io.debezium.connector.mysql.MySqlConnector", "database.server.id": "5602",
		"offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore", "offset.storage.file.filename": filepath.Join(b.dir, "offsets"),
		"offset.flush.interval.ms": "1000", "poll.interval.ms": "5",
		"schema.history.internal":               "io.debezium.storage.file.history.FileSchemaHistory",
		"schema.history.internal.file.filename": filepath.Join(b.dir, "history"), "converter.schemas.enable": "false",
		"producer.bootstrap.servers": b.broker.Kafka, "producer.acks": "all", "producer.batch.size": "131072", "producer.linger.ms": "0",
		"producer.buffer.memory": "67108864", "producer.max.request.size": "8388608",
	} {
		r.props[k] = v
	}
	return r, nil
}

func (r *relay) start() error {
	log, err := os.OpenFile(r.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// The heap and the collector are those of Kafka Connect's own start script.
	r.cmd = exec.Command("java", "-Xms256M", "-Xmx2G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Duser.timezone=UTC", "-cp", r.classes, "rowtrail.debezium.Relay")
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("start java: %w", err)
	}
	r.done = make(chan error, 1)
	go func() { r.done <- r.cmd.Wait() }()
	line, err := json.Marshal(r.props)
	if err != nil {
		return err
	}
	_, err = r.in.Write(append(line, '\n'))
	return err
}

func (r *relay) pid() int { return r.cmd.Process.Pid }

// stop lets the engine store its offsets and end.
func (r *relay) stop() error {
	if r.cmd == nil {
		return nil
	}
	_ = r.in.Close()
	select {
	case err := <-r.done:
		r.cmd = nil
		if err != nil {
			return fmt.Errorf("debezium: %w; the end of its log:\n%s", err, r.tail())
		}
		return nil
	case <-time.After(relayStop):
		r.kill()
		return fmt.Errorf("debezium does not end; the end of its log:\n%s", r.tail())
	}
}

// tail is the end of the log.
func (r *relay) tail() string {
	text, err := os.ReadFile(r.logFile)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

func (r *relay) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		<-r.done
		r.cmd = nil
	}
}
