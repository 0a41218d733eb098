package configs

import "fmt"

func (v *validator) connectors() {
	names := map[string]string{}
	for i, c := range v.cfg.Connectors {
		v.name(fmt.Sprintf("connectors[%d]", i), c.Name, names)
	}
}

func (v *validator) sinks() {
	names := map[string]string{}
	for i, s := range v.cfg.Sinks {
		v.name(fmt.Sprintf("sinks[%d]", i), s.Name, names)
	}
}
