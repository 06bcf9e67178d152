// Starts operator and pipelines controller with the ServiceAccount that a chart installed, until they are ready: the rights of the chart
// are enough to start and to hold the Lease.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readOperatorConfig } from '@brokkr/dataflow/operator/config.ts'
import { startOperator } from '@brokkr/dataflow/operator/main.ts'
import type { PipelinesConfig } from '@brokkr/pipelines/config.ts'
import { startPipelines } from '@brokkr/pipelines/main.ts'
import { createLifecycle } from '@brokkr/runtime/lifecycle.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import type { PrivateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { onTestFinished } from 'vitest'

const readyMs = 120_000

/** A kubeconfig with a token of the account, as the pod would have one. */
async function writeAccountKubeconfig(at: PrivateCluster, namespace: string, account: string): Promise<string> {
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`
  const { json } = await at.api<{ status: { token: string } }>('POST', path, { body })
  const config = {
    clusters: [{ name: 'c', cluster: { server: at.url, 'certificate-authority-data': Buffer.from(at.caPem).toString('base64') } }],
    users: [{ name: 'u', user: { token: json.status.token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', namespace } }],
    'current-context': 'x',
  }
  const file = join(at.dir, `${namespace}.kubeconfig`)
  await writeFile(file, JSON.stringify(config), { mode: 0o600 })
  return file
}

function openLifecycle() {
  const lifecycle = createLifecycle({ log: silentLog }, { graceMs: 20_000 })
  onTestFinished(() => lifecycle.close('the test ended'))
  return lifecycle
}

const waitUntilReady = (handle: { notReady: () => string | null }): Promise<unknown> =>
  waitFor('readiness with the rights of the chart', async () => handle.notReady() === null, {
    limitMs: readyMs,
    onTimeout: async () => handle.notReady() ?? '',
  })

/** `env` is the environment of the rendered container; a mounted certificate does not exist here. */
export async function runOperatorWithRights(at: PrivateCluster, namespace: string, env: Readonly<Record<string, string>>): Promise<void> {
  const hasMount = env['WEBHOOK_CERT_DIR'] !== undefined
  const config = readOperatorConfig({
    ...env,
    ...(hasMount ? { WEBHOOK_ENABLED: 'false' } : {}),
    KUBECONFIG: await writeAccountKubeconfig(at, namespace, 'brokkr-dataflow'),
    OPERATOR_BIND_HOST: '127.0.0.1',
    OPERATOR_METRICS_PORT: '0',
    OPERATOR_PROBE_PORT: '0',
    WEBHOOK_PORT: '0',
  })
  const lifecycle = openLifecycle()
  const handle = await startOperator(config, { log: silentLog, lifecycle, env: {} })
  await waitUntilReady(handle)
  await waitFor('the Lease', async () => handle.isLeader(), { limitMs: readyMs })
  await lifecycle.close('ready')
}

export async function runPipelinesWithRights(at: PrivateCluster, namespace: string, config: PipelinesConfig): Promise<void> {
  const pipelines = {
    ...config.pipelines,
    kubeconfig_path: await writeAccountKubeconfig(at, namespace, 'brokkr-pipelines'),
    bind_host: '127.0.0.1',
    metrics_port: 0,
    health_probe_port: 0,
    promotion_hook_port: 0,
    git_cache_dir: null,
    tls_cert_file: null,
    tls_key_file: null,
  }
  const lifecycle = openLifecycle()
  await waitUntilReady(await startPipelines({ ...config, pipelines }, { log: silentLog, lifecycle, env: {} }))
  await lifecycle.close('ready')
}
