import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { expect, test } from 'vitest'
import { previewFlow, validateFlow } from './commands.ts'
import { startPreviewServer } from './processor/preview/preview-server.ts'

const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['b:9092'], topic } })
const flowWith = (transformations: object[], more: object = {}) => ({
  apiVersion: 'dataflow.dataflow.io/v1',
  kind: 'DataFlow',
  metadata: { namespace: 'ns', name: 'f' },
  spec: { source: kafka('in'), sink: kafka('out'), transformations, ...more },
})
const look = { secret: () => Promise.reject(new Error('none')), allowLoopback: false, signal: new AbortController().signal }

test('all rules run for one flow', () => {
  const { problems, warnings } = validateFlow(flowWith([{ type: 'filter', config: { condition: 'a ==' } }, { type: 'nope' }]))
  expect(problems).toHaveLength(2)
  expect(problems[0]).toMatch(/^spec\.transformations\[0\]\.config\.condition: column \d+: expected/)
  expect(warnings).toEqual([])
  expect(validateFlow(flowWith([])).problems).toEqual([])
})

test('a preview shows every step, the outcome and the sink, with all digits', async () => {
  const object = flowWith([
    { type: 'filter', config: { condition: 'n > 1' } },
    { type: 'flatten', config: { field: 'items' } },
    { type: 'router', config: { routes: [{ name: 'big', condition: 'n > 100', sink: kafka('big') }] } },
    { type: 'cast', config: { spec: { n: 'int64' } } },
  ])
  const samples = ['{"n":1}', '{"n":9007199254740993,"items":[{"a":1},{"a":2}]}', '{"n":"x"}', '{"n":5}', 'nope']
  const { previews } = await previewFlow(object, { ...look, samples })
  expect(previews.map(({ ending, sink }) => [ending, sink])).toEqual([
    ['dropped', undefined],
    ['written', 'kafka (big)'],
    ['dead-lettered', undefined],
    ['written', 'kafka'],
    ['dropped', undefined],
  ])
  expect(JSON.stringify(previews[1]!.steps)).toContain('"outputs":[{"n":9007199254740993,"a":1},{"n":9007199254740993,"a":2}]')
  expect(previews[0]!.steps).toEqual([{ index: 0, type: 'filter', applied: true, outputs: [] }])
  expect(previews[2]!.error).toContain('cast: n')
})

test('the preview server previews samples, rejects invalid requests and ends slow ones', async () => {
  const server = await startPreviewServer({ clock: systemClock, log: silentLog }, { host: '127.0.0.1', port: 0 })
  const post = async (body: unknown) => {
    const answer = await fetch(`http://127.0.0.1:${server.port}/preview`, {
      method: 'POST',
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    return {
      status: answer.status,
      json: (await answer.json()) as { previews?: { ending: string }[]; problems?: string[]; message?: string },
    }
  }
  const mask = flowWith([{ type: 'mask', config: { fields: ['card'] } }])
  const good = await post({ flow: mask, samples: ['{"card":"4111"}'] })
  expect(good).toMatchObject({ status: 200, json: { problems: [], previews: [{ ending: 'written', input: { card: '4111' } }] } })
  expect(await post({ flow: flowWith([{ type: 'nope' }]), samples: [] })).toMatchObject({ status: 422 })
  expect((await post('{')).status).toBe(400)
  expect((await post({ flow: mask, samples: Array.from({ length: 21 }, () => '{}') })).status).toBe(400)
  expect((await post('x'.repeat((1 << 20) + 1))).status).toBe(413)
  expect((await fetch(`http://127.0.0.1:${server.port}/other`)).status).toBe(404)
  await server.close()
})

test('[D120] the preview program answers like the command line, and the same problems are found without it', async () => {
  const server = await startPreviewServer({ clock: systemClock, log: silentLog }, { host: '127.0.0.1', port: 0 })
  const post = async (flow: object, samples: readonly string[]) => {
    const body = JSON.stringify({ flow, samples })
    const answer = await fetch(`http://127.0.0.1:${server.port}/preview`, { method: 'POST', body })
    return { status: answer.status, text: await answer.text() }
  }
  const object = flowWith([
    { type: 'filter', config: { condition: 'n > 1' } },
    { type: 'mask', config: { fields: ['card'] } },
    { type: 'cast', config: { spec: { n: 'int64' } } },
  ])
  const samples = ['{"n":1}', '{"n":9007199254740993,"card":"4111"}', '{"n":"x"}', 'nope']
  const shown = await post(object, samples)
  const { previews } = await previewFlow(object, { ...look, samples })
  expect(shown.status).toBe(200)
  expect(shown.text).toContain(JSON.stringify(previews))
  const wrong = flowWith([{ type: 'filter', config: { condition: 'a ==' } }, { type: 'nope' }])
  const refused = await post(wrong, [])
  expect(refused.status).toBe(422)
  // The contract validates by itself, in a browser too.
  for (const problem of validateFlow(wrong).problems) expect(refused.text).toContain(JSON.stringify(problem))
  await server.close()
})
