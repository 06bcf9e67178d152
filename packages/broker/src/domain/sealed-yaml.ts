// Where the text of a deployment object is sealed: what authenticates it to its own row.
export const sealedYaml = (id: string) => ({ table: 'deployment_objects', column: 'yaml_sealed', id })
