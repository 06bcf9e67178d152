// kubectl on the same load: one file, server-side, discovery warm.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ensureKubeAssets } from '@brokkr/local/assets/kube-assets.ts'
import { type Measured, measure } from './child.ts'
import { configMapText } from './kube/objects.ts'

export async function applyByKubectl(
  at: { readonly kubeconfigPath: string; readonly dir: string; readonly namespace: string },
  count: number,
): Promise<Measured> {
  const { kubectl } = await ensureKubeAssets({ parts: ['kubectl'] })
  const file = join(at.dir, `${at.namespace}.yaml`)
  writeFileSync(file, Array.from({ length: count }, (_, n) => configMapText(at.namespace, n, 'a')).join('\n---\n'))
  const env = { KUBECONFIG: at.kubeconfigPath, HOME: at.dir }
  await measure(kubectl!, ['get', 'configmaps', '-n', at.namespace, '-o', 'name'], env) // warm discovery
  return { ...(await measure(kubectl!, ['apply', '--server-side', '--force-conflicts', '-f', file, '-o', 'name'], env)), output: '' }
}
