// Ours against bare, call by call.
import type { PrivatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { tell } from '../figures.ts'
import { type Fleet, type FleetSize, fill } from './fill.ts'
import {
  getStack,
  heartbeat,
  listAgents,
  postEvent,
  postEventContended,
  reportStatus,
  submit,
  targetState,
  targetStatesInTurn,
} from './requests.ts'
import { type Figures, inWords, medians, runLoad } from './run-load.ts'
import { type Ours, type Server, startBare } from './servers.ts'

export interface Bench {
  readonly postgres: PrivatePostgres
  readonly ours: Ours
}
const size = { agents: 32, stacksPerAgent: 200, objectsPerStack: 50, otherStacks: 0, objectBytes: 2048 }
const fleets = {
  /** Enough to report on. */
  many: { ...size, stacksPerAgent: 10, objectsPerStack: 5 },
  /** Enough agents for a full page of 200. */
  agents: { ...size, agents: 200, stacksPerAgent: 1, objectsPerStack: 1 },
  /** One agent with long histories. */
  long: { ...size, agents: 1 },
  /** Of more texts than a broker keeps: asked for in turn, none is there when its turn comes. */
  wide: { ...size, agents: 48, objectsPerStack: 5 },
} satisfies Record<string, FleetSize>
interface Call {
  readonly fleet: keyof typeof fleets
  readonly lanes: (fleet: Fleet, adminPak: string) => readonly (readonly string[])[]
  /** Of the bare one's requests per second. */
  readonly ratio: number
  /** CPU of broker and PostgreSQL together. */
  readonly cpuMsMax?: number
}
const calls: Readonly<Record<string, Call>> = {
  'GET one stack': { fleet: 'many', lanes: getStack, ratio: 0.8, cpuMsMax: 0.4 },
  heartbeat: { fleet: 'many', lanes: heartbeat, ratio: 0.8, cpuMsMax: 0.5 },
  'POST one event': { fleet: 'many', lanes: postEvent, ratio: 0 },
  'POST one event, one agent and object': { fleet: 'many', lanes: postEventContended, ratio: 0 },
  'GET 200 agents': { fleet: 'agents', lanes: listAgents, ratio: 0 },
  'POST one status': { fleet: 'many', lanes: reportStatus, ratio: 0.7 },
  'submit 2 KB': { fleet: 'many', lanes: submit, ratio: 0.7 },
  'target state, 200 stacks': { fleet: 'long', lanes: (fleet) => targetState(fleet), ratio: 0, cpuMsMax: 10 },
  'target state, no text kept': { fleet: 'wide', lanes: targetStatesInTurn, ratio: 0, cpuMsMax: 10 },
}
const seconds = Number(process.env['BENCH_SECONDS'] ?? 5)
const firstSeconds = Number(process.env['BENCH_WARM_UP_SECONDS'] ?? 15)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 5)

export async function compare({ postgres, ours }: Bench): Promise<void> {
  const { url } = await postgres.database()
  const broker = await ours.start(url)
  const fillWith = (name: keyof typeof fleets) => fill(url, ours.encryptionKey, fleets[name])
  const filled: Partial<Record<keyof typeof fleets, Fleet>> = { long: await fillWith('long'), many: await fillWith('many') }
  const bare = await startBare(url)
  try {
    for (const [name, call] of Object.entries(calls).filter(([each]) => each.includes(process.env['BENCH_CALL'] ?? ''))) {
      const fleet = (filled[call.fleet] ??= await fillWith(call.fleet))
      tellCall(name, call, await measure({ bare, broker, postgres: postgres.pid }, call.lanes(fleet, ours.adminPak)))
    }
  } catch (error) {
    throw new Error(`bare: ${bare.logTail(5)}\nours: ${broker.logTail(5)}`, { cause: error })
  } finally {
    await Promise.all([bare.kill(), broker.stop()])
  }
}

async function measure(
  { bare, broker, postgres }: { bare: Server; broker: Server; postgres: number },
  lanes: readonly (readonly string[])[],
): Promise<{ bare: Figures; ours: Figures }> {
  const results: { bare: Figures[]; ours: Figures[] } = { bare: [], ours: [] }
  const one = (server: Server, warmUpSeconds = 0.5) =>
    runLoad({ port: server.port, seconds, warmUpSeconds, lanes }, { server: server.pid, postgres })
  // Compiled code and prepared statements first: a server runs for weeks, and ours has more to compile.
  for (const server of [bare, broker]) await one(server, firstSeconds)
  for (let round = 0; round < rounds; round += 1) {
    // Who goes first changes, so that neither always finds the caches of the other.
    for (const who of round % 2 === 0 ? (['bare', 'ours'] as const) : (['ours', 'bare'] as const))
      results[who].push(await one(who === 'bare' ? bare : broker))
  }
  return { bare: medians(results.bare), ours: medians(results.ours) }
}

function tellCall(name: string, { ratio, cpuMsMax }: Call, { bare, ours }: { bare: Figures; ours: Figures }): void {
  tell(`${name}: bare`, inWords(bare))
  tell(`${name}: ours`, inWords(ours))
  const cpuMs = (ours.ownUs + ours.postgresUs) / 1000
  const share = ours.perSecond / bare.perSecond
  const bars = [
    ratio === 0 ? `${share.toFixed(2)} of bare` : `${share.toFixed(2)} of bare (bar ${ratio}${share < ratio ? ', MISSED' : ''})`,
    `CPU ${((bare.ownUs + bare.postgresUs) / 1000 / cpuMs).toFixed(2)} of bare`,
    `${cpuMs.toFixed(2)} ms CPU${cpuMsMax === undefined ? '' : ` (bar ${cpuMsMax}${cpuMs > cpuMsMax ? ', MISSED' : ''})`}`,
  ]
  tell(`${name}: result`, bars.join(' · '))
}
