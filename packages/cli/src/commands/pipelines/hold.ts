// brokkr pipeline hold | release: sets or removes the annotation of the Pipeline, with the caller's own rights in its cluster.
import { HOLD_ANNOTATION, PIPELINE } from '@brokkr/contract/pipelines/fields.ts'
import { hasReason, type Kube, loadKubeconfig, openKube } from '@brokkr/kube'
import type { Globals } from '../../cli.ts'
import { readCliEnvironment } from '../../config.ts'
import { findContextKubeconfig } from '../../context.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import type { HoldFlags } from './flags.ts'

const requestMs = 30_000

export async function setHold(globals: Globals, name: string, options: HoldFlags & { hold: boolean }): Promise<void> {
  const path = options.kubeconfig ?? readCliEnvironment(process.env).KUBECONFIG ?? (await findContextKubeconfig(globals)) ?? undefined
  const kube = openKube(await loadKubeconfig({ path, env: process.env }), { env: process.env, userAgent: 'brokkr-cli' })
  try {
    const namespace = await findNamespace(kube, name, options.namespace)
    const annotations = { [HOLD_ANNOTATION]: options.hold ? 'true' : null }
    const patch = { type: 'merge' as const, body: { metadata: { annotations } } }
    await kube.patch({ ...PIPELINE, namespace, name }, patch, { fieldManager: 'brokkr-cli', signal: AbortSignal.timeout(requestMs) })
    print(options.hold ? `${name} is held: it starts no new run` : `${name} is released`)
  } catch (error) {
    if (!hasReason(error, 'Forbidden')) throw error
    throw new CliError(`the pipeline ${name} may not be changed`, {
      next: 'ask for the right to patch pipelines, or use another kubeconfig: --kubeconfig FILE',
      exitCode: exitCodes.notAllowed,
      cause: error,
    })
  } finally {
    await kube.close()
  }
}

async function findNamespace(kube: Kube, name: string, wanted?: string): Promise<string> {
  const signal = AbortSignal.timeout(requestMs)
  const options = { fieldSelector: `metadata.name=${name}`, signal, ...(wanted === undefined ? {} : { namespace: wanted }) }
  const { items } = await kube.list(PIPELINE, options)
  const [first, ...others] = items.flatMap(({ metadata }) => metadata.namespace ?? [])
  if (first === undefined)
    throw new CliError(`there is no pipeline named ${name}`, { next: 'brokkr pipeline list', exitCode: exitCodes.notFound })
  if (others.length === 0) return first
  throw new CliError(`the name ${name} is used in several namespaces`, {
    where: [first, ...others].join(', '),
    next: `name one: --namespace ${first}`,
    exitCode: exitCodes.usage,
  })
}
