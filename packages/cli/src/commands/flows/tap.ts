// brokkr flows tap: prints records of a running flow from the tap of one of its pods. The tap listens on the loopback address of the pod, so
// its port is forwarded first; on the practice cluster the processor runs on this machine and is found by itself.
import { type Kube, type KubeObject, selectorOf } from '@brokkr/kube'
import type { Globals } from '../../cli.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { findFlow, requestMs, withCluster } from './cluster-flows.ts'
import type { TapFlags } from './flags.ts'

const connectMs = 10_000
const lineCharsMax = 1024 * 1024

export async function tapFlow(globals: Globals, name: string, options: TapFlags): Promise<void> {
  const count = options.count === undefined ? Number.POSITIVE_INFINITY : parseCount(options.count)
  const address = options.address === undefined ? await findAddress(globals, name, options) : parseAddress(options.address)
  const shown = await printLines(await connect(address), count)
  if (shown < count && options.count !== undefined)
    throw new CliError(`the processor ended after ${shown} records`, { next: `brokkr flows describe ${name}` })
}

/** Returns the number of lines. Ends with the stream, also if the processor is killed; leaving the loop closes the connection. */
async function printLines(body: NonNullable<Response['body']>, count: number): Promise<number> {
  let [rest, shown] = ['', 0]
  const decoder = new TextDecoder()
  try {
    for await (const piece of body) {
      const lines = `${rest}${decoder.decode(piece, { stream: true })}`.split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > lineCharsMax) throw new CliError('the answer is no tap: a line is too long')
      for (const line of lines) {
        print(line)
        shown += 1
        if (shown >= count) return shown
      }
    }
  } catch (error) {
    if (error instanceof CliError) throw error
  }
  return shown
}

function parseCount(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 1) return value
  throw new CliError(`--count: "${text}" is not a number of 1 or more`, { exitCode: exitCodes.usage })
}

/** A forwarded port is on this machine. */
function parseAddress(text: string): string {
  if (/^(127\.0\.0\.1|localhost):\d{1,5}$/.test(text)) return text
  throw new CliError(`--address: "${text}" is not an address of this machine`, { next: '127.0.0.1:PORT', exitCode: exitCodes.usage })
}

const findAddress = (globals: Globals, name: string, options: TapFlags): Promise<string> =>
  withCluster(globals, { ...options, output: 'table' }, async (kube) => {
    const flow = await findFlow(kube, name, { ...options, output: 'table' })
    const [pod] = await readPods(kube, flow)
    if (pod === undefined)
      throw new CliError(`${name} has no running pod`, { next: `brokkr flows describe ${name}`, exitCode: exitCodes.notFound })
    const local = pod.metadata.annotations?.['dataflow.dataflow.io/tap-address']
    if (local !== undefined) return parseAddress(local)
    const { namespace = '' } = flow.metadata
    throw new CliError('the tap listens on the loopback address of the pod: forward its port first', {
      where: `pod ${namespace}/${pod.metadata.name}`,
      next: `kubectl -n ${namespace} port-forward pod/${pod.metadata.name} 9093, then: brokkr flows tap ${name} --address 127.0.0.1:9093`,
      exitCode: exitCodes.usage,
    })
  })

async function readPods(kube: Kube, { kind, metadata }: KubeObject): Promise<KubeObject[]> {
  const key = kind === 'DataFlowCron' ? 'dataflow.dataflow.io/dataflow-cron' : 'dataflow.dataflow.io/name'
  const labelSelector = selectorOf({ [key]: metadata.name, 'dataflow.dataflow.io/owned': 'true' })
  const options = {
    namespace: metadata.namespace,
    labelSelector,
    fieldSelector: 'status.phase=Running',
    signal: AbortSignal.timeout(requestMs),
  }
  const { items } = await kube.list({ apiVersion: 'v1', kind: 'Pod' }, options)
  return items.filter((pod) => pod.metadata.deletionTimestamp === undefined)
}

async function connect(address: string): Promise<NonNullable<Response['body']>> {
  const ending = new AbortController()
  const timer = setTimeout(() => ending.abort(), connectMs)
  try {
    const response = await fetch(`http://${address}/tap`, { signal: ending.signal })
    if (response.ok && response.body !== null) return response.body
    throw new CliError(`${address} refused: ${(await response.text()).trim().slice(0, 200)}`)
  } catch (error) {
    if (error instanceof CliError) throw error
    throw new CliError(`no tap answers at ${address}`, { next: 'forward port 9093 of a pod of the flow', cause: error })
  } finally {
    clearTimeout(timer)
  }
}
