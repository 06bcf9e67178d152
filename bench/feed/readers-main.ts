// Many followers in one process: opens a stream per agent, notes when each put was parsed, tells on request. It knows the wire alone, so
// that it costs as little as a reader can.
import { type IncomingMessage, request } from 'node:http'
import { createInterface } from 'node:readline'

export interface ReadersOrder {
  readonly port: number
  readonly agents: readonly { readonly id: string; readonly pak: string; readonly cursor?: string }[]
  /** null: streams. Else target-state is asked for that often, and a new object counts as seen. */
  readonly pollMs: number | null
}
/** stack, rev, nanoseconds of the machine's monotonic clock. */
export type Sighting = readonly [string, number, number]
const nowNs = () => Number(process.hrtime.bigint())
const tell = (line: object) => void process.stdout.write(`${JSON.stringify(line)}\n`)

let sightings: Sighting[] = []
let puts = 0
let snapshots = 0
let answered = 0
let refused = 0
const cursors = new Map<string, string>()
const synced = Promise.withResolvers<void>()
let ready = 0
let expected = 0
const onReady = () => {
  ready += 1
  if (ready === expected) synced.resolve()
}

const get = (port: number, pak: string, path: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, agent: false, headers: { authorization: `Bearer ${pak}` } }, resolve)
    sent.on('error', reject)
    sent.end()
  })

function take(agentId: string, line: string): void {
  if (line.startsWith('{"type":"put"')) {
    const { stack_id, rev } = JSON.parse(line) as { stack_id: string; rev: number }
    puts += 1
    sightings.push([stack_id, rev, nowNs()])
  } else if (line.startsWith('{"type":"snapshot_end"') || line.startsWith('{"type":"bookmark"')) {
    cursors.set(agentId, (JSON.parse(line) as { cursor: string }).cursor)
    if (line.startsWith('{"type":"snapshot_end"')) onReady()
  } else if (line.startsWith('{"type":"snapshot_begin"')) snapshots += 1
  else if (line.startsWith('{"type":"hello"') && line.includes('"mode":"resume"')) onReady()
}

async function follow(port: number, { id, pak, cursor }: ReadersOrder['agents'][number]): Promise<void> {
  for (;;) {
    const query = cursor === undefined ? '' : `?cursor=${encodeURIComponent(cursor)}`
    const response = await get(port, pak, `/api/v1/agents/${id}/stream${query}`)
    response.setEncoding('utf8')
    if (response.statusCode === 503) {
      const seconds = Number(response.headers['retry-after'] ?? 1)
      response.resume()
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000 * (0.5 + (puts % 100) / 100)))
      continue
    }
    if (response.statusCode !== 200) throw new Error(`stream answered ${response.statusCode}`)
    let rest = ''
    response.on('data', (chunk: string) => {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) take(id, line)
    })
    return
  }
}

/** null: refused or cut off, as happens to a fleet that asks more than a broker can answer. */
async function targetState(port: number, { id, pak }: ReadersOrder['agents'][number]): Promise<string | null> {
  try {
    const response = await get(port, pak, `/api/v1/agents/${id}/target-state?mode=full`)
    let text = ''
    for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) text += chunk
    return response.statusCode === 200 ? text : null
  } catch {
    return null
  }
}

async function poll(port: number, agent: ReadersOrder['agents'][number], everyMs: number): Promise<void> {
  const seen = new Set<string>()
  for (let isFirst = true; ; ) {
    const startedMs = performance.now()
    const text = await targetState(port, agent)
    if (text === null) refused += 1
    else {
      answered += 1
      for (const object of JSON.parse(text) as { id: string; stack_id: string; sequence_id: number }[]) {
        if (seen.has(object.id)) continue
        seen.add(object.id)
        if (!isFirst) sightings.push([object.stack_id, object.sequence_id, nowNs()])
      }
      if (isFirst) onReady()
      isFirst = false
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, everyMs - (performance.now() - startedMs))))
  }
}

async function start({ port, agents, pollMs }: ReadersOrder): Promise<void> {
  expected = agents.length
  let next = 0
  const lane = async () => {
    for (let n = next++; n < agents.length; n = next++) {
      if (pollMs === null) await follow(port, agents[n]!)
      else void poll(port, agents[n]!, pollMs)
    }
  }
  const startedMs = performance.now()
  // Below what the broker lets one address hold open before a key is shown: here all of them have one address.
  await Promise.all(Array.from({ length: Math.min(200, agents.length) }, lane))
  await synced.promise
  tell({ syncedMs: performance.now() - startedMs, snapshots, puts })
}

for await (const line of createInterface(process.stdin)) {
  if (line === 'report') {
    tell({ sightings, puts, answered, refused, cursors: Object.fromEntries(cursors) })
    sightings = []
  } else if (line === 'quit') process.exit(0)
  else void start(JSON.parse(line) as ReadersOrder)
}
