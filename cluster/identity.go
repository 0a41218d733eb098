package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

const identityName = "node.json"

// Formation is how a cluster began: its id, and the data directories of its first members. It never changes.
type Formation struct {
	Cluster string           `json:"cluster"`
	Disks   map[int32]string `json:"disks"` // by node
	// Nodes are what the first members said of themselves.
	Nodes map[int32]NodeInfo `json:"nodes,omitempty"`
}

// identityFile is what a data directory says of itself.
type identityFile struct {
	Node      int32      `json:"node"`
	Disk      string     `json:"disk"`
	Cluster   string     `json:"cluster,omitempty"`   // "": none yet
	Formation *Formation `json:"formation,omitempty"` // of the cluster
	// Gen is the generation of this node's replica of the controller's log, where the node was not among the first.
	Gen uint32 `json:"gen,omitempty"`
	// Removed: the node was removed from its cluster.
	Removed bool `json:"removed,omitempty"`
}

// identity is the durable identity of a data directory: whose it is cannot change.
type identity struct {
	path string

	mu   sync.Mutex
	file identityFile
	boot string // of this process
	// fresh: this process gave the directory its identity.
	fresh bool
}

// openIdentity reads a data directory's identity, or gives a blank one its own.
func openIdentity(dir string, node int32) (*identity, error) {
	if dir == "" {
		return &identity{boot: newID(), fresh: true, file: identityFile{Node: node, Disk: "memory"}}, nil
	}
	id := &identity{path: filepath.Join(dir, identityName), boot: newID()}
	var err error
	id.file, err = readIdentity(id.path, node)
	if errors.Is(err, os.ErrNotExist) {
		id.file, id.fresh = identityFile{Node: node, Disk: newID()}, true
		return id, id.write()
	}
	return id, err
}

// readIdentity reads the file of a directory that is to be a node's; os.ErrNotExist: it is nobody's, as it has no identity, or one that was never
// in a cluster: of a node that was refused for its id, and is told to take another.
func readIdentity(path string, node int32) (f identityFile, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return f, fmt.Errorf("read the node's identity: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err = d.Decode(&f)
	if err == nil && f.Disk == "" {
		err = errors.New("it names no disk")
	}
	if err != nil {
		return f, fmt.Errorf("%s is not readable: %w: %w; restore it from a backup, or empty the directory and let the node join again", path, err, ErrIdentity)
	}
	if f.Node != node && f.Cluster == "" {
		return identityFile{}, os.ErrNotExist
	}
	if f.Node != node {
		return f, fmt.Errorf("data directory %s belongs to node %d and the configuration says node %d; correct node.id or node.data_dir: %w",
			filepath.Dir(path), f.Node, node, ErrIdentity)
	}
	if f.Removed {
		return f, removedError(node, filepath.Dir(path))
	}
	return f, nil
}

// change writes another identity.
func (i *identity) change(f func(*identityFile)) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	old := i.file
	f(&i.file)
	if err := i.write(); err != nil {
		i.file = old
		return err
	}
	return nil
}

// write replaces the file as a whole.
func (i *identity) write() error {
	if i.path == "" {
		return nil
	}
	b, err := json.MarshalIndent(i.file, "", "  ")
	if err != nil {
		return err
	}
	if err := replaceFile(i.path, append(b, '\n')); err != nil {
		return fmt.Errorf("write the node's identity: %w", err)
	}
	return nil
}

func (i *identity) get() identityFile {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.file
}

func replaceFile(path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
