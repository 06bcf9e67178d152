// Builds a kubeconfig for one cluster and one user. Needs no YAML writer: all values are generated here.

export type KubeconfigUser = { token: string } | { certPem: string; keyPem: string }

export function kubeconfigText(cluster: { name: string; server: string; caPem: string }, user: KubeconfigUser): string {
  const lines = [
    'apiVersion: v1',
    'kind: Config',
    'clusters:',
    `- name: ${cluster.name}`,
    '  cluster:',
    `    server: ${cluster.server}`,
    `    certificate-authority-data: ${base64(cluster.caPem)}`,
    'users:',
    '- name: user',
    '  user:',
    ...userLines(user),
    'contexts:',
    `- name: ${cluster.name}`,
    `  context: {cluster: ${cluster.name}, user: user}`,
    `current-context: ${cluster.name}`,
  ]
  return `${lines.join('\n')}\n`
}

function userLines(user: KubeconfigUser): string[] {
  if ('token' in user) return [`    token: ${user.token}`]
  return [`    client-certificate-data: ${base64(user.certPem)}`, `    client-key-data: ${base64(user.keyPem)}`]
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
