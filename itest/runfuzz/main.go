// Command runfuzz runs every fuzz target of the packages it is given for a while each, one after the other.
//
//	go run ./itest/runfuzz -fuzztime 30s ./...
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	fuzztime := flag.String("fuzztime", "30s", "how long each target runs")
	flag.Parse()
	packages, err := list(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "runfuzz:", err)
		os.Exit(2)
	}
	targets, failed := 0, 0
	for _, pkg := range packages {
		names, err := fuzzTargets(pkg)
		if err != nil {
			fmt.Fprintln(os.Stderr, "runfuzz:", err)
			os.Exit(2)
		}
		for _, name := range names {
			targets++
			fmt.Printf("== %s %s for %s\n", pkg, name, *fuzztime)
			cmd := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", *fuzztime, pkg)
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				failed++
			}
		}
	}
	fmt.Printf("%d passed, %d failed\n", targets-failed, failed)
	if failed > 0 || targets == 0 {
		os.Exit(1)
	}
}

func list(patterns []string) ([]string, error) {
	out, err := exec.Command("go", append([]string{"list"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	return strings.Fields(string(out)), nil
}

func fuzzTargets(pkg string) ([]string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command("go", "test", "-list", "^Fuzz", pkg)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list fuzz targets of %s: %w: %s", pkg, err, stderr.String())
	}
	var names []string
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "Fuzz") {
			names = append(names, word)
		}
	}
	return names, nil
}
