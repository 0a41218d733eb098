package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rowtrail/rowtrail/itest/externallog"
)

// Of the run over Apache Kafka.
const (
	logTransactions = 1000
	logRate         = 100
	logKills        = 4
)

// kafkaAsLog captures a shop from Postgres into Apache Kafka and applies it to a second Postgres, and kills the node on the way.
func (j *java) kafkaAsLog(ctx context.Context, env *Env, r *Result) (err error) {
	kafka, err := externallog.StartKafka(ctx, filepath.Join(j.dir, "lib", "*"), env.Dir, externallog.Security{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	logf := func(format string, args ...any) { r.Output += fmt.Sprintf(format+"\n", args...) }
	shop, err := externallog.Open(ctx, externallog.Options{Binary: env.binary, Dir: env.Dir, Log: externallog.Log{Brokers: []string{kafka.Address}}, Nodes: 1, Seed: env.Seed, Logf: logf})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close()) }()
	if err := shop.Loaded(ctx); err != nil {
		return err
	}
	r.Passes()
	if err := shop.Storm(ctx, logTransactions, logRate, logKills); err != nil {
		return err
	}
	if _, err := shop.Judge(ctx); err != nil {
		return err
	}
	r.Passes()
	return nil
}
