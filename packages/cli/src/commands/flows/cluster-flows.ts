// Reads flows of a cluster and finds one by its name.
import { hasReason, type Kube, type KubeObject, loadKubeconfig, openKube } from '@brokkr/kube'
import type { Globals } from '../../cli.ts'
import { readCliEnvironment } from '../../config.ts'
import { findContextKubeconfig } from '../../context.ts'
import { CliError, exitCodes } from '../../output.ts'
import type { FlowFlags } from './flags.ts'

const apiVersion = 'dataflow.dataflow.io/v1'
export type FlowKind = 'DataFlow' | 'DataFlowCron'
export const requestMs = 30_000
const flowsMax = 5_000

/** Closes the client after `work`. */
export async function withCluster<T>(globals: Globals, options: FlowFlags, work: (kube: Kube) => Promise<T>): Promise<T> {
  const path = options.kubeconfig ?? readCliEnvironment(process.env).KUBECONFIG ?? (await findContextKubeconfig(globals)) ?? undefined
  const kube = openKube(await loadKubeconfig({ path, env: process.env }), { env: process.env, userAgent: 'brokkr-cli' })
  try {
    return await work(kube)
  } catch (error) {
    if (!hasReason(error, 'Forbidden')) throw error
    throw new CliError('the cluster refused the request', {
      next: 'ask for rights to dataflows, or use another kubeconfig: --kubeconfig FILE',
      exitCode: exitCodes.notAllowed,
      cause: error,
    })
  } finally {
    await kube.close()
  }
}

export async function readFlows(
  kube: Kube,
  options: FlowFlags,
  kinds: readonly FlowKind[] = ['DataFlow', 'DataFlowCron'],
): Promise<KubeObject[]> {
  const found: KubeObject[] = []
  const selection = { signal: AbortSignal.timeout(requestMs), ...(options.namespace === undefined ? {} : { namespace: options.namespace }) }
  for (const kind of kinds)
    for await (const page of kube.pages({ apiVersion, kind }, selection)) {
      found.push(...page.items.map((item) => ({ ...item, kind, apiVersion })))
      if (found.length > flowsMax)
        throw new CliError(`there are more than ${flowsMax} flows`, { next: 'name a namespace: --namespace NAME' })
    }
  return found
}

export async function findFlow(kube: Kube, name: string, options: FlowFlags, kinds?: readonly FlowKind[]): Promise<KubeObject> {
  const [first, ...others] = (await readFlows(kube, options, kinds)).filter(({ metadata }) => metadata.name === name)
  if (first === undefined) throw new CliError(`there is no flow named ${name}`, { next: 'brokkr flows list', exitCode: exitCodes.notFound })
  if (others.length === 0) return first
  throw new CliError(`the name ${name} is used by several flows`, {
    where: [first, ...others].map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`).join(', '),
    next: `name a namespace: --namespace ${first.metadata.namespace ?? ''}`,
    exitCode: exitCodes.usage,
  })
}
