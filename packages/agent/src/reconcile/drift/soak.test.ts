import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import type { SoakOrder, SoakSample } from '../../test-parts/drift-soak.ts'
import { CONFIG_MAP, reconcileWorld } from '../../test-parts/reconcile-world.ts'

const program = fileURLToPath(new URL('../../test-parts/drift-soak.ts', import.meta.url))

test('[A50] under constant drift no queue or map grows without bound and the heap stays flat', async () => {
  const objects = size('A50.objects')
  const durationMs = size('A50.durationMs')
  const perStack = 100
  const at = await cluster({ controllers: false })
  const world = await reconcileWorld(at)
  const namespace = await at.namespace('soak')
  const order: SoakOrder = {
    kubeconfigPath: at.kubeconfigPath,
    own: world.own,
    agentId: world.agentId,
    namespace,
    stacks: objects / perStack,
    perStack,
    settings: world.deps.settings,
  }
  const child = fork(program, [], { execArgv: ['--expose-gc', '--max-semi-space-size=8'], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const samples: SoakSample[] = []
  child.on('message', (message) => void samples.push(message as SoakSample))
  child.send(order)
  const isApplied = () => samples.at(-1)?.members === objects && samples.at(-1)?.waiting === 0
  await waitFor('everything to stand', isApplied, { limitMs: 600_000, everyMs: 500, onTimeout: () => JSON.stringify(samples.at(-1)) })
  const from = samples.length
  const untilMs = performance.now() + durationMs
  // Somebody edits all the time: another object each time, so that no fight slows the healing down.
  for (let n = 0; performance.now() < untilMs; n += 8)
    await mapBounded(
      Array.from({ length: 8 }, (_, index) => (n + index) % objects),
      4,
      async (each) => {
        const name = `s${Math.floor(each / perStack) + 1}-m${each % perStack}`
        await world.kube.patch(
          { ...CONFIG_MAP, namespace, name },
          { type: 'merge', body: { data: { x: 'theirs' } } },
          { fieldManager: 'rival' },
        )
      },
    )
  const during = samples.slice(from)
  const third = Math.floor(during.length / 3)
  const median = (of: readonly SoakSample[], key: keyof SoakSample) =>
    of.map((sample) => sample[key]).toSorted((a, b) => a - b)[Math.floor(of.length / 2)] ?? 0
  const [early, late] = [median(during.slice(0, third), 'heapMib'), median(during.slice(-third), 'heapMib')]
  const last = during.at(-1)
  process.stdout.write(
    `A50: ${objects} objects, ${Math.round(durationMs / 1000)} s, ${last?.healed} fields healed, heap ${early.toFixed(1)} → ${late.toFixed(1)} MiB, RSS ${last?.rssMib.toFixed(0)} MiB\n`,
  )
  expect(last?.healed).toBeGreaterThan(objects / 20)
  expect(late).toBeLessThan(early * 1.15 + 3)
  for (const { members, marks, waiting, events } of during) {
    expect(members).toBe(objects)
    expect(marks).toBeLessThanOrEqual(objects + 1)
    expect(waiting).toBeLessThanOrEqual(objects / perStack)
    expect(events).toBeLessThanOrEqual(1_000)
  }
}, 7_200_000)
