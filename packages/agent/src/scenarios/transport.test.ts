// The way to the broker changes with what stands between: streams that are held back, a broker that has none. A whole agent, a
// real broker, and a proxy that behaves like those in the field.
import type { Fault } from '@brokkr/testing/faults/broker-proxy.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { tierOfRun } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { type LiveWorld, liveWorld } from '../test-parts/live-world.ts'

const isProof = tierOfRun() === 'proof'
/** In the proportions of the real ones: 30 s, 25 s and 10 min. */
const times: Record<string, string> = isProof
  ? {}
  : {
      BROKKR__AGENT__STREAM_SILENT_SECONDS: '1.5',
      BROKKR__AGENT__LONG_POLL_SECONDS: '1.2',
      BROKKR__AGENT__TRANSPORT_RETRY_SECONDS: '8',
    }
const limitMs = isProof ? 1_500_000 : 90_000

const transportOf = async ({ running }: LiveWorld) => {
  const answered = (await (await fetch(`${running.healthUrl}/health`)).json()) as { broker: { transport: string } }
  return answered.broker.transport
}
const reaches = (world: LiveWorld, transport: string) =>
  waitFor(`the way to be ${transport}`, async () => (await transportOf(world)) === transport, { limitMs, onTimeout: world.explain })
const pass: Fault = { do: 'pass' }

test('[A35] the agent falls back to long poll and poll and returns to the stream', async () => {
  const world = await liveWorld(await cluster({ controllers: false }), times)
  try {
    const { id } = await world.stack()
    let sequence = 0
    const arrives = async (value: string) => {
      await world.submit(id, world.configMap('one', { v: value }))
      sequence++
      await waitFor(`revision ${value}`, async () => (await world.read('one'))?.data?.['v'] === value, {
        limitMs,
        onTimeout: world.explain,
      })
      await world.reported(id, 'applied', sequence)
    }
    await reaches(world, 'stream')
    await arrives('by stream')

    // A proxy that collects answers until they are complete: a stream never is.
    world.proxy.break(({ path }) => (path.endsWith('/stream') ? { do: 'buffer' } : pass))
    const before = world.proxy.requests.length
    world.proxy.cutOpen()
    await reaches(world, 'longpoll')
    const tries = world.proxy.requests.slice(before).filter(({ path }) => path.endsWith('/stream'))
    const silent = tries.findIndex(({ query }) => query.has('wait'))
    expect(tries.slice(0, silent).filter(({ query }) => !query.has('wait')).length).toBe(2)
    await arrives('by long poll')
    world.proxy.heal()
    await reaches(world, 'stream')
    await arrives('by stream again')

    // A broker of the first version knows no such path.
    world.proxy.break(({ path }) => (path.endsWith('/stream') ? { do: 'answer', status: 404 } : pass))
    world.proxy.cutOpen()
    await reaches(world, 'poll')
    await arrives('by polling')
    world.proxy.heal()
    await reaches(world, 'stream')
    await arrives('by stream once more')
  } finally {
    await world.stop()
  }
}, 3_600_000)
