// One direction of a proxied connection: reads from one socket, holds a bounded queue, and writes to the other as the faults allow.
import type { Duplex } from 'node:stream'
import { type Arrival, type LaneFaults, type LaneState, type Limit, nextStep, type Step } from './fault-step.ts'

export type LaneDeps = {
  from: Duplex
  to: Duplex
  faults: () => LaneFaults
  /** Bytes the kernel has taken for the receiver. */
  onPassed: (data: Buffer) => void
  resetBoth: () => void
}

/** A receiver that does not read stops the sender once this much is held, as it would without us. */
const heldBytesMax = 256 * 1024

export class Lane {
  readonly #deps: LaneDeps
  readonly #held: Arrival[] = []
  #heldBytes = 0
  #state: Omit<LaneState, 'first'> = { passed: 0, restUntilMs: 0, truncated: false }
  #limit: Limit | undefined
  #stopped = false
  #wake = () => {}
  #roomy = () => {}

  constructor(deps: LaneDeps) {
    this.#deps = deps
  }

  start(): void {
    void this.#read()
    void this.#write()
  }

  /** The sending socket broke: its receiver hears of it when the faults let it. */
  breakOff(): void {
    this.#hold({ atMs: performance.now(), is: 'reset' })
  }

  /** Evaluates queued data again after the faults changed. */
  reconsider(): void {
    this.#wake()
  }

  stop(): void {
    this.#stopped = true
    this.#wake()
    this.#roomy()
  }

  async #read(): Promise<void> {
    try {
      for await (const data of this.#deps.from.iterator({ destroyOnReturn: false })) {
        this.#hold({ atMs: performance.now(), is: 'data', data: data as Buffer })
        while (this.#heldBytes >= heldBytesMax && !this.#stopped) await new Promise<void>((resolve) => (this.#roomy = resolve))
        if (this.#stopped) return
      }
      this.#hold({ atMs: performance.now(), is: 'end' })
    } catch {
      // The socket's own error event calls breakOff.
    }
  }

  async #write(): Promise<void> {
    while (!this.#stopped) {
      const faults = this.#deps.faults()
      if (faults.limit !== this.#limit) this.#beginLimit(faults.limit)
      await this.#perform(nextStep({ ...this.#state, first: this.#held[0] }, faults, performance.now()))
    }
  }

  #beginLimit(limit: Limit | undefined): void {
    this.#limit = limit
    this.#state.passed = 0
  }

  async #perform(step: Step): Promise<void> {
    switch (step.do) {
      case 'wait':
        return this.#sleep(step.ms)
      case 'pass':
        return this.#pass(step.bytes, step.restMs)
      case 'reset':
        this.stop()
        return this.#deps.resetBoth()
      case 'truncate':
        this.#state.truncated = true
        this.#deps.to.end()
        return
      case 'end':
        this.#release()
        this.#deps.to.end()
        return
      case 'drop':
        this.#release()
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = Number.isFinite(ms) ? setTimeout(() => this.#wake(), ms) : undefined
      this.#wake = () => {
        clearTimeout(timer)
        this.#wake = () => {}
        resolve()
      }
    })
  }

  async #pass(bytes: number, restMs: number): Promise<void> {
    const data = this.#take(bytes)
    this.#state.passed += bytes
    this.#state.restUntilMs = performance.now() + restMs
    if (await written(this.#deps.to, data)) this.#deps.onPassed(data)
  }

  #hold(arrival: Arrival): void {
    this.#held.push(arrival)
    if (arrival.is === 'data') this.#heldBytes += arrival.data.length
    this.#wake()
  }

  #release(): void {
    const first = this.#held.shift()
    if (first?.is === 'data') this.#heldBytes -= first.data.length
    this.#roomy()
  }

  /** So many bytes of the first arrival, which is data. */
  #take(bytes: number): Buffer {
    const first = this.#held[0]
    if (first?.is !== 'data') return Buffer.alloc(0)
    const data = first.data.subarray(0, bytes)
    first.data = first.data.subarray(bytes)
    this.#heldBytes -= data.length
    if (first.data.length === 0) this.#release()
    return data
  }
}

/** False if the receiver has closed; the error event of its socket informs the other direction. */
function written(to: Duplex, data: Buffer): Promise<boolean> {
  if (!to.writable) return Promise.resolve(false)
  return new Promise((resolve) => to.write(data, (error) => resolve(!error)))
}
