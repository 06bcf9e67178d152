// Many objects in many stacks: the agent beside a bare loop that sends the same dry runs and applies, interleaved on one API server.
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PrivateCluster } from '@brokkr/testing/servers/kube.ts'
import { measure, readCpuSeconds } from '../child.ts'
import { percentile, tell } from '../figures.ts'
import { applyByKubectl } from '../kubectl.ts'

const here = import.meta.dirname
interface Round {
  readonly bare: number
  readonly bareChange: number
  readonly kubectl: number
  readonly first: number
  readonly again: number
  readonly change: number
  readonly againRequests: number
  /** CPU seconds of API server and etcd during each first apply, and of the agent until then. */
  readonly serverCpu: { readonly agent: number; readonly bare: number }
  readonly agentCpu: number
}

export async function throughput(
  plane: PrivateCluster,
  dir: string,
  size: { objects: number; stacks: number; rounds: number },
): Promise<void> {
  const caFile = join(dir, 'ca.crt')
  writeFileSync(caFile, plane.caPem)
  // Warm-up: otherwise the first side would include the start of the server.
  await bareLoop(plane, caFile, await plane.namespace('warm'), { objects: Math.ceil(size.objects / 5), value: 'a' })
  const rounds: Round[] = []
  for (let n = 0; n < size.rounds; n++) rounds.push(await oneRound(plane, dir, caFile, size))
  const median = (of: (round: Round) => number) => percentile(rounds.map(of), 0.5)
  const { objects, stacks } = size
  const rate = (seconds: number) => `${seconds.toFixed(1)} s · ${(objects / seconds).toFixed(0)}/s`
  tell(`bare loop, dry run + apply of ${objects}`, rate(median(({ bare }) => bare)))
  tell(`agent, first apply of ${objects} in ${stacks} stacks`, rate(median(({ first }) => first)))
  tell(`kubectl apply --server-side of ${objects}`, rate(median(({ kubectl }) => kubectl)))
  tell('agent / bare loop, first apply (bar 0.8)', median(({ bare, first }) => bare / first).toFixed(2))
  tell(
    'CPU of the servers during it, agent · bare loop',
    `${median(({ serverCpu }) => serverCpu.agent).toFixed(1)} s · ${median(({ serverCpu }) => serverCpu.bare).toFixed(1)} s`,
  )
  tell('CPU of the agent during it', `${median(({ agentCpu }) => agentCpu).toFixed(1)} s`)
  tell('bare loop, change of every object', rate(median(({ bareChange }) => bareChange)))
  tell('agent, change of every object', rate(median(({ change }) => change)))
  tell('agent / bare loop, change (bar 0.8)', median(({ bareChange, change }) => bareChange / change).toFixed(2))
  tell(
    'agent, a second look at everything',
    `${median(({ again }) => again * 1000).toFixed(0)} ms · ${median(({ againRequests }) => againRequests)} requests`,
  )
  tell('unchanged / first apply (bar 0.05)', median(({ again, first }) => again / first).toFixed(3))
  tell('requests per unchanged object (bar 0)', (median(({ againRequests }) => againRequests - 3 * stacks - 50) / objects).toFixed(2))
}

async function oneRound(plane: PrivateCluster, dir: string, caFile: string, size: { objects: number; stacks: number }): Promise<Round> {
  const [own, ours, theirs] = [await plane.namespace('agent'), await plane.namespace('ours'), await plane.namespace('bare')]
  const bare = (value: string) => bareLoop(plane, caFile, theirs, { objects: size.objects, value })
  const startCpu = serversCpu(plane)
  const agent = runAgent(plane, own, ours, size)
  const first = await agent.next('first')
  const agentCpu = readCpuSeconds(agent.pid)
  const betweenCpu = serversCpu(plane)
  const bareFirst = await bare('a')
  const serverCpu = { agent: betweenCpu - startCpu, bare: serversCpu(plane) - betweenCpu }
  const before = await requestCount(plane)
  agent.go()
  const again = await agent.next('again')
  const againRequests = (await requestCount(plane)) - before
  const bareChange = await bare('b')
  agent.go()
  const change = await agent.next('change')
  await agent.ended
  const at = { kubeconfigPath: plane.kubeconfigPath, dir, namespace: await plane.namespace('kubectl') }
  const kubectl = (await applyByKubectl(at, size.objects)).seconds
  return { bare: bareFirst, bareChange, kubectl, first, again, change, againRequests, serverCpu, agentCpu }
}

export async function bareLoop(
  plane: PrivateCluster,
  caFile: string,
  namespace: string,
  { objects, value }: { objects: number; value: string },
): Promise<number> {
  const args = [join(here, '../bare/try-and-apply.ts'), plane.url, caFile, plane.token, namespace, String(objects), value]
  return secondsIn((await measure(process.execPath, args)).output)
}

function runAgent(plane: PrivateCluster, own: string, namespace: string, size: { objects: number; stacks: number }) {
  const args = [
    '--max-semi-space-size=8',
    join(here, 'apply-ours.ts'),
    plane.kubeconfigPath,
    own,
    namespace,
    String(size.objects),
    String(size.stacks),
  ]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const steps = new Map<string, PromiseWithResolvers<number>>()
  const getStep = (name: string) => {
    const step = steps.get(name) ?? Promise.withResolvers<number>()
    steps.set(name, step)
    return step
  }
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) {
      const { step, seconds } = JSON.parse(line) as { step: string; seconds: number }
      getStep(step).resolve(seconds)
    }
  })
  const end = new Promise<void>((resolve, reject) => {
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`the agent ended with ${code}`))))
  })
  end.catch((error: unknown) => {
    for (const name of ['first', 'again', 'change']) getStep(name).reject(error)
  })
  return { pid: child.pid ?? 0, next: (name: string) => getStep(name).promise, go: () => child.stdin.write('\n'), ended: end }
}

const secondsIn = (output: string): number => (JSON.parse(output.trim().split('\n').at(-1) ?? '{}') as { seconds: number }).seconds

/** What the API server has answered so far, watches and its own housekeeping apart. */
async function requestCount(plane: PrivateCluster): Promise<number> {
  const response = await plane.api<string>('GET', '/metrics')
  const text = typeof response.json === 'string' ? response.json : JSON.stringify(response.json)
  const lines = text
    .split('\n')
    .filter((line) => /^apiserver_request_total\{.*resource="(configmaps|secrets)"/.test(line) && !/verb="WATCH"/.test(line))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

const serversCpu = (plane: PrivateCluster): number => {
  const pids = plane.pids()
  return readCpuSeconds(pids['kube-apiserver'] ?? 0) + readCpuSeconds(pids['etcd'] ?? 0)
}
