import { expect, test } from 'vitest'
import { createMetrics } from './metrics.ts'

test('counters, gauges and histograms appear in the text with their prefix once', async () => {
  const metrics = createMetrics({ prefix: 'brokkr_' })
  metrics.counter('requests_total', 'Requests', ['code']).inc({ code: '200' }, 2)
  metrics.gauge('brokkr_streams', 'Open streams').set(7)
  metrics.histogram('wait_seconds', 'Waiting', ['queue'], [0.1, 1]).observe({ queue: 'a' }, 0.5)
  const text = await metrics.text()
  expect(text).toContain('brokkr_requests_total{code="200"} 2')
  expect(text).toContain('brokkr_streams 7')
  expect(text).toContain('brokkr_wait_seconds_bucket{le="1",queue="a"} 1')
  expect(text).not.toContain('brokkr_brokkr_')
  expect(metrics.contentType).toContain('text/plain')
})

test('the same metric is returned for the same shape, and another shape is rejected', async () => {
  const metrics = createMetrics()
  metrics.counter('a_total', 'A', ['x', 'y']).inc({ x: '1', y: '2' })
  metrics.counter('a_total', 'A', ['y', 'x']).inc({ x: '1', y: '2' })
  expect(await metrics.text()).toContain('a_total{x="1",y="2"} 2')
  expect(() => metrics.counter('a_total', 'A', ['x'])).toThrow(/a_total exists as counter\(x,y\)/)
  expect(() => metrics.gauge('a_total', 'A')).toThrow(/exists as counter/)
})

test('two registries share nothing', async () => {
  const one = createMetrics()
  one.counter('a_total', 'A').inc()
  const other = createMetrics()
  other.gauge('a_total', 'A').set(5)
  expect(await other.text()).toContain('a_total 5')
  expect(await one.text()).toContain('a_total 1')
})

test('a value set in beforeScrape appears in the scrape', async () => {
  const metrics = createMetrics()
  const gauge = metrics.gauge('queue', 'Queue')
  let length = 1
  metrics.beforeScrape(async () => {
    await Promise.resolve()
    gauge.set(length)
  })
  expect(await metrics.text()).toContain('queue 1')
  length = 2
  expect(await metrics.text()).toContain('queue 2')
})

test('process metrics are optional', async () => {
  expect(await createMetrics().text()).not.toContain('process_')
  for (const processMetrics of [true, 'calm'] as const)
    expect(await createMetrics({ processMetrics, prefix: 'brokkr_' }).text()).toMatch(
      /process_resident_memory_bytes[^]*nodejs_eventloop_lag/,
    )
})

test('a tally counts like a histogram, in buckets that add up', async () => {
  const metrics = createMetrics()
  const tally = metrics.tally('latency_seconds', 'Latency', { name: 'a' }, [1, 2, 4])
  tally.observe(0.5)
  tally.observe(2, 3)
  tally.observe(9)
  metrics.tally('latency_seconds', 'Latency', { name: 'b' }).observe(1)
  const lines = (await metrics.text()).split('\n').filter((line) => line.includes('name="a"'))
  expect(lines).toEqual([
    'latency_seconds_bucket{le="1",name="a"} 1',
    'latency_seconds_bucket{le="2",name="a"} 4',
    'latency_seconds_bucket{le="4",name="a"} 4',
    'latency_seconds_bucket{le="+Inf",name="a"} 5',
    'latency_seconds_sum{name="a"} 15.5',
    'latency_seconds_count{name="a"} 5',
  ])
  expect(await metrics.text()).toContain('latency_seconds_count{name="b"} 1')
})
