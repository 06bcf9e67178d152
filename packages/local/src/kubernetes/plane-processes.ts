// Starts, monitors and stops the processes of one control plane. A component has started when its readiness endpoint succeeds; one
// that exits instead is reported with the last lines of its log.
import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { Agent, get } from 'node:https'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeAssets } from '../assets/kube-assets.ts'
import { readTail } from '../supervisor/log-tail.ts'
import { endsWithin, type OwnedProcess, spawnOwned } from '../supervisor/spawn-owned.ts'
import { type Component, type ComponentOptions, componentArguments, findProgram, readyAddress, stopOrder } from './components.ts'
import type { PlaneDir } from './plane-dir.ts'

export type ProcessOptions = ComponentOptions & { startLimitMs: number; signal?: AbortSignal }

export class PlaneProcesses {
  /** Replaced when more programs were obtained. */
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

  /** Does not wait. Does nothing if the component runs. */
  spawn(plane: PlaneDir, component: Component): void {
    if (this.isRunning(component)) return
    if (this.#isStopped) throw new Error(`${component} cannot be started: the control plane in ${plane.dir} was stopped`)
    const command = findProgram(component, this.assets)
    if (command === undefined) throw new Error(`${component} is not installed: call ensureKubeAssets with stage 'full'`)
    const args = componentArguments(component, plane, this.#options)
    const logFile = toLogFile(plane, component)
    // In its own process group, so that Ctrl-C reaches only this process, which stops the components in order.
    this.#running.set(component, spawnOwned({ name: component, command, args, cwd: plane.dir, logFile, detached: true }))
  }

  /** Starts and waits until ready. */
  async start(plane: PlaneDir, component: Component): Promise<void> {
    // The socket file of a killed etcd would look like a listening one.
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
      // The API server waits for etcd without an error.
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

  /** Returns when the process has ended; for SIGSTOP and SIGCONT at once. */
  async kill(component: Component, signal: NodeJS.Signals): Promise<void> {
    const owned = this.#running.get(component)
    if (owned === undefined || !owned.kill(signal)) return
    if (signal === 'SIGSTOP' || signal === 'SIGCONT') return
    if (!(await endsWithin(owned.exited, 90_000))) throw new Error(`${component} (pid ${owned.pid}) did not end 90 s after ${signal}`)
  }

  /** Kills the API server: it would wait a minute for open watches, and all its data is in etcd. */
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
  return readTail(toLogFile(plane, component), { lines })
}

function toLogFile(plane: PlaneDir, component: Component): string {
  return join(plane.path('logs'), `${component}.log`)
}

async function probe(plane: PlaneDir, component: Component): Promise<string> {
  if (component === 'etcd') return existsSync(plane.path('etcdSocket')) ? 'ready' : 'not listening yet'
  try {
    const status = await readStatus(readyAddress(component, plane), plane)
    return status === 200 ? 'ready' : `answers ${status}`
  } catch (error) {
    return (error as Error).message
  }
}

function readStatus(url: string, { caPem, token }: PlaneDir): Promise<number> {
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
