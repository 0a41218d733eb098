package toolchain

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
)

// debezium is the Maven project of the programs that run Debezium's engine.
const debezium = "itest/debezium/java"

// Profiles of the project: the connectors that are of one version.
const (
	DebeziumPostgresMySQL = "postgres-mysql"
	DebeziumMariaDB       = "mariadb"
)

// DebeziumVersion is the version that the project's pom.xml fixes for a profile.
func DebeziumVersion(root, profile string) (string, error) {
	var pins struct {
		Version  string `xml:"properties>debezium.version"`
		Profiles []struct {
			ID      string `xml:"id"`
			Version string `xml:"properties>debezium.version"`
		} `xml:"profiles>profile"`
	}
	pom, err := os.ReadFile(filepath.Join(root, debezium, "pom.xml"))
	if err != nil {
		return "", fmt.Errorf("run this in the repository's root: %w", err)
	}
	if err := xml.Unmarshal(pom, &pins); err != nil {
		return "", fmt.Errorf("%s/pom.xml: %w", debezium, err)
	}
	for _, p := range pins.Profiles {
		if p.ID == profile && p.Version != "" {
			return p.Version, nil
		}
	}
	return pins.Version, nil
}

// BuildDebezium compiles the programs and copies their jars, with a profile's connectors, into dir; not again while neither pom.xml nor a source
// changed.
func BuildDebezium(ctx context.Context, root, dir, profile string) error {
	tools := &Chain{}
	if err := tools.Need(ctx, []Tool{{Name: "javac", Packages: []string{"default-jdk-headless"}}, {Name: "mvn", Packages: []string{"maven"}}}); err != nil {
		return err
	}
	if err := BuildMaven(ctx, filepath.Join(root, debezium), dir, "-P", profile); err != nil {
		return fmt.Errorf("build %s: %w", debezium, err)
	}
	return nil
}

// DebeziumClasses is java's -cp of what BuildDebezium has put into dir.
func DebeziumClasses(dir string) string {
	return filepath.Join(dir, "classes") + ":" + filepath.Join(dir, "lib", "*")
}
