// Configuration inside a pod: address from the environment, token and CA from files that the kubelet renews.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { KubeConfig } from './kube-config.ts'
import { BadKubeconfig } from './kube-config.ts'

export async function loadInCluster(options: { env: Readonly<Record<string, string | undefined>>; dir?: string }): Promise<KubeConfig> {
  const dir = options.dir ?? '/var/run/secrets/kubernetes.io/serviceaccount'
  const host = options.env['KUBERNETES_SERVICE_HOST']
  const port = options.env['KUBERNETES_SERVICE_PORT_HTTPS'] ?? options.env['KUBERNETES_SERVICE_PORT']
  if (!host || !port)
    throw new BadKubeconfig('not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set. Give a kubeconfig instead')
  const namespace = await readFile(join(dir, 'namespace'), 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new BadKubeconfig(
      `${join(dir, 'namespace')}: ${cause.code}. The pod has no service account token mounted (automountServiceAccountToken)`,
      { cause },
    )
  })
  return {
    server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
    namespace: namespace.trim() || 'default',
    ca: { file: join(dir, 'ca.crt') },
    token: { kind: 'file', path: join(dir, 'token') },
  }
}
