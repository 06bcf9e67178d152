// Encryption contexts of manifests and parameters, which bind the ciphertext to its row.
export const toManifestContext = (id: string) => ({ table: 'deployment_objects', column: 'yaml_sealed', id })

/** Encryption context of the parameters that a manifest was rendered with. */
export const toParametersContext = (id: string) => ({ table: 'rendered_deployment_objects', column: 'parameters_sealed', id })
