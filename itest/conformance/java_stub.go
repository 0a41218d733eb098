package main

import (
	"context"
)

func (j *java) streams(ctx context.Context, env *Env, r *Result) error  { return nil }
func (j *java) commands(ctx context.Context, env *Env, r *Result) error { return nil }
