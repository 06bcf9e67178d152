// Starts, watches and ends the processes of one control plane. A component counts as started when its own ready signal says so; one
// that ends instead is reported with the last lines of its log.
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Agent, get } from 'node:https'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeAssets } from './assets.ts'
import { type Component, type ComponentOptions, componentArguments, programOf, readyAddress, stopOrder } from './kube-components.ts'
import { readTail } from './log-tail.ts'
import type { PlaneDir } from './plane-dir.ts'
import { endsWithin, type OwnedProcess, spawnOwned } from './spawn-owned.ts'

export type ProcessOptions = ComponentOptions & { startLimitMs: number; signal?: AbortSignal }

export class PlaneProcesses {
  /** May be replaced when more programs were fetched. */
  assets: KubeAssets
  readonly #options: ProcessOptions
  readonly #running = new Map<Component, OwnedProcess>()
  #isStopped = false

  constructor(assets: KubeAssets, options: ProcessOptions) {
    this.assets = assets
    this.#options = options
  }

  isRunning(component: Component): boolean {
    return this.#running.get(component)?.isRunning() ?? false
  }

  pids(): Partial<Record<Component, number>> {
    const alive = [...this.#running].filter(([, owned]) => owned.isRunning())
    return Object.fromEntries(alive.map(([component, owned]) => [component, owned.pid]))
  }

  /** Without waiting; nothing happens when it runs already. */
  spawn(plane: PlaneDir, component: Component): void {
    if (this.isRunning(component)) return
    if (this.#isStopped) throw new Error(`${component} cannot be started: the control plane in ${plane.dir} was stopped`)
    const command = programOf(component, this.assets)
    if (command === undefined) throw new Error(`${component} was not fetched yet: ask ensureKubeAssets for the stage 'full'`)
    const args = componentArguments(component, plane, this.#options)
    const logFile = logFileOf(plane, component)
    // A process group of its own: Ctrl-C in a terminal reaches us, and we stop the parts in their order.
    this.#running.set(component, spawnOwned({ name: component, command, args, cwd: plane.dir, logFile, detached: true }))
  }

  /** Starts and waits until ready. */
  async start(plane: PlaneDir, component: Component): Promise<void> {
    // A socket left by a killed etcd would look like one that listens.
    if (component === 'etcd' && !this.isRunning('etcd')) await rm(plane.path('etcdSocket'), { force: true })
    this.spawn(plane, component)
    await this.ready(plane, component)
  }

  async ready(plane: PlaneDir, component: Component): Promise<void> {
    const { startLimitMs, signal } = this.#options
    const end = performance.now() + startLimitMs
    for (let last = ''; ; ) {
      signal?.throwIfAborted()
      this.#failIfEnded(component)
      // The API server waits for etcd without a word.
      if (component === 'kube-apiserver') this.#failIfEnded('etcd')
      const answer = await probe(plane, component)
      if (answer === 'ready') return
      last = answer
      if (performance.now() > end) throw this.#failure(component, `was not ready within ${startLimitMs / 1000} s (${last})`)
      await sleep(25)
    }
  }

  #failIfEnded(component: Component): void {
    if (!this.isRunning(component)) throw this.#failure(component, 'ended')
  }

  #failure(component: Component, what: string): StartFailed {
    const owned = this.#running.get(component)
    return new StartFailed(component, what, owned?.logFile ?? '', owned?.logTail(20) ?? '')
  }

  /** Returns when the process is gone, for signals that end it; STOP and CONT return at once. */
  async kill(component: Component, signal: NodeJS.Signals): Promise<void> {
    const owned = this.#running.get(component)
    if (owned === undefined || !owned.kill(signal)) return
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') return
    if (!(await endsWithin(owned.exited, 90_000))) throw new Error(`${component} (pid ${owned.pid}) did not end 90 s after ${signal}`)
  }

  /** Everything the API server knows is in etcd, so it is killed: by itself it waits a minute for open watches. */
  async stop(): Promise<void> {
    this.#isStopped = true
    for (const together of stopOrder) {
      const graceMs = together.includes('kube-apiserver') ? 0 : 3000
      const running = together.flatMap((component) => this.#running.get(component) ?? [])
      await Promise.all(running.map((owned) => owned.stop(graceMs)))
    }
  }
}

export class StartFailed extends Error {
  override readonly name = 'StartFailed'
  readonly component: Component
  readonly isPortTaken: boolean

  constructor(component: Component, what: string, logFile: string, tail: string) {
    super(`${component} ${what}; its log ${logFile} ends with:\n${tail}`)
    this.component = component
    this.isPortTaken = /address already in use/i.test(tail)
  }
}

export function planeLogTail(plane: PlaneDir, component: Component, lines: number): string {
  return readTail(logFileOf(plane, component), { lines })
}

function logFileOf(plane: PlaneDir, component: Component): string {
  return join(plane.path('logs'), `${component}.log`)
}

async function probe(plane: PlaneDir, component: Component): Promise<string> {
  if (component === 'etcd') return existsSync(plane.path('etcdSocket')) ? 'ready' : 'it does not listen yet'
  try {
    const status = await statusOf(readyAddress(component, plane), plane)
    return status === 200 ? 'ready' : `it answers ${status}`
  } catch (error) {
    return (error as Error).message
  }
}

function statusOf(url: string, { caPem, token }: PlaneDir): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` }
    const agent = new Agent({ ca: caPem })
    const outgoing = get(url, { agent, headers, signal: AbortSignal.timeout(5000) }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
    outgoing.on('error', reject)
  })
}
