import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { judge, minimalSinks, minimalSources, problemsOf, sink, source, spec, step, warningsOf } from '../test-parts/specs.ts'
import { normalize } from './normalize.ts'
import { printSpec } from './print-spec.ts'
import { DataFlowCronSpec, DataFlowSpec } from './schema.ts'
import { resolveSecrets } from './secrets.ts'
import { findSink } from './types.ts'
import { notShared, refusalMessage } from './validate.ts'

const ref = { name: 'n', key: 'k' }

describe('defaults', () => {
  test('of the flow', () => {
    expect(judge(spec()).flow).toMatchObject({
      kind: 'DataFlow',
      transformations: [],
      errors: undefined,
      cron: undefined,
      resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
      checkpointPersistence: true,
      checkpointSaveIntervalMs: 10_000,
      checkpointSyncOnAck: false,
      ackGranularity: 'batch',
      collapseBatchOnMessageAck: true,
      strictIdempotency: false,
      channelBufferSize: 100,
      maxInFlightBytes: 32 << 20,
      maxMessageBytes: 10 << 20,
      transformWorkers: 1,
      replicas: 1,
      compat: 'safe',
    })
  })

  test('of a kafka source and sink', () => {
    const { flow } = judge(spec())
    expect(flow?.source.config).toMatchObject({
      consumerGroup: 'dataflow-ns-orders',
      startOffset: 'earliest',
      isolation: 'committed',
      format: 'json',
      securityProtocol: 'PLAINTEXT',
      fetchMinBytes: 1,
      fetchMaxBytes: 8 << 20,
      maxPartitionFetchBytes: 1 << 20,
      consumerMaxWaitMs: 500,
      netReadTimeoutMs: 30_000,
    })
    expect(flow?.sink.config).toMatchObject({
      subject: 'u-value',
      requiredAcks: 'all',
      idempotent: true,
      compression: 'lz4',
      batchSize: 1000,
      batchBytes: 1 << 20,
      batchFlushIntervalSeconds: 0.01,
      eager: true,
      exactlyOnce: 'auto',
      unknownFields: 'deadLetter',
    })
  })

  test.each<[string, object, object]>([
    [
      'postgresql',
      {},
      { batchSize: 1000, batchBytes: 4 << 20, batchFlushIntervalSeconds: 1, eager: true, deleteMode: 'row', conflictKey: ['id'] },
    ],
    ['postgresql', { upsertMode: true, conflictKey: 'a, b' }, { deleteMode: 'hard', conflictKey: ['a', 'b'] }],
    ['postgresql', { upsertMode: true, softDeleteColumn: 'gone' }, { deleteMode: 'soft' }],
    ['postgresql', { batchFlushIntervalSeconds: 2 }, { batchFlushIntervalSeconds: 2, eager: false }],
    ['clickhouse', {}, { batchSize: 10_000, eager: false, tableEngine: 'MergeTree' }],
    ['clickhouse', { upsertMode: true }, { tableEngine: 'ReplacingMergeTree' }],
    ['trino', {}, { batchSize: 500, batchBytes: 900_000, batchFlushIntervalSeconds: 5, auth: 'none', user: 'dataflow-operator' }],
    ['trino', { basicAuth: { username: 'u', password: 'p' } }, { auth: 'basic' }],
    ['trino', { bearerTokenSecretRef: ref }, { auth: 'bearer' }],
    [
      'nessie',
      {},
      { batchSize: 100_000, batchFlushIntervalSeconds: 60, branch: 'main', authenticationType: 'AUTO', targetFileBytes: 64 << 20 },
    ],
    ['kafka', { requiredAcks: 'LOCAL' }, { requiredAcks: 'local', idempotent: false }],
    ['kafka', { sasl: { username: 'u', password: 'p' } }, { securityProtocol: 'SASL_PLAINTEXT' }],
    ['kafka', { tls: {} }, { securityProtocol: 'SSL' }],
    [
      'kafka',
      { flushMessages: 7, flushBytes: 2048, flushFrequency: '250ms' },
      { batchSize: 7, batchBytes: 2048, batchFlushIntervalSeconds: 0.25, eager: false },
    ],
  ])('of a %s sink with %j', (type, given, expected) => {
    expect(judge(spec({ sink: sink(type, { ...given }) })).flow?.sink.config).toMatchObject(expected)
  })

  test.each<[string, object, object]>([
    [
      'postgresql',
      { readBatchSize: 0, pollInterval: 0 },
      { readBatchSize: 1000, pollIntervalMs: 5000, changeTrackingColumn: 'updated_at', overlapSeconds: 0 },
    ],
    ['postgresql', { pollInterval: 7 }, { pollIntervalMs: 7000 }],
    [
      'postgresql-cdc',
      { heartbeatIntervalSeconds: 0 },
      { heartbeatIntervalSeconds: 10, slotName: 'brokkr_ns_orders', publicationName: 'brokkr_ns_orders', slotLagWarningBytes: 5 * 2 ** 30 },
    ],
    ['iceberg', { startSnapshotID: 881 }, { startSnapshotID: '881', pollIntervalMs: 10_000, incrementalBySnapshot: true }],
  ])('of a %s source with %j', (type, given, expected) => {
    expect(judge(spec({ source: source(type, { ...given }) })).flow?.source.config).toMatchObject(expected)
  })

  test('a postgresql source gets an overlap only if every sink upserts', () => {
    const reading = (...sinks: object[]) => {
      const [main, ...others] = sinks
      const transformations = others.map((other) => step('router', { routes: [{ condition: 'a', sink: other }] }))
      return judge({ source: source('postgresql'), sink: main, transformations }).flow?.source.config
    }
    const upsert = sink('postgresql', { upsertMode: true })
    expect(reading(upsert)).toMatchObject({ overlapSeconds: 5 })
    expect(reading(upsert, upsert)).toMatchObject({ overlapSeconds: 5 })
    expect(reading(upsert, sink('kafka'))).toMatchObject({ overlapSeconds: 0 })
  })

  test('dead letters are masked if the chain masks', () => {
    const letters = (...transformations: object[]) => judge(spec({ transformations, errors: sink('kafka') })).flow?.errors
    expect(letters()).toMatchObject({ payload: 'full', ackPolicy: 'afterWrite', maxConsecutive: 1000 })
    expect(letters(step('mask', { fields: ['a'] }))).toMatchObject({ payload: 'masked' })
  })

  test('onNonJson defaults to error for mask and to pass for other transforms', () => {
    const { flow } = judge(
      spec({
        transformations: [
          step('mask', { fields: ['a'] }),
          step('select', { fields: ['a'] }),
          step('mask', { fields: ['a'] }, { onNonJson: 'Pass' }),
        ],
      }),
    )
    expect(flow?.transformations.map(({ onNonJson }) => onNonJson)).toEqual(['error', 'pass', 'pass'])
  })
})

describe('both shapes', () => {
  test('the block of postgresql-cdc may be written as one word', () => {
    const given = { type: 'postgresql-cdc', postgresqlCdc: { ...minimalSources['postgresql-cdc'], tables: [] } }
    expect(problemsOf(spec({ source: given }))).toEqual(['V14 spec.source.postgresqlCdc.tables: needs at least one entry'])
  })

  test('two equal blocks with different key order are accepted as one', () => {
    expect(
      problemsOf(spec({ source: { type: 'kafka', config: { topic: 't', brokers: ['a'] }, kafka: { brokers: ['a'], topic: 't' } } })),
    ).toEqual([])
  })

  test('a top-level field overrides scheduling with a warning', () => {
    const given = spec({ nodeSelector: { a: 'top' }, scheduling: { nodeSelector: { a: 'below' }, affinity: { x: 1 } } })
    expect(judge(given).flow).toMatchObject({ nodeSelector: { a: 'top' }, affinity: { x: 1 } })
    expect(warningsOf(given)).toEqual(['spec.scheduling.nodeSelector: is ignored: spec.nodeSelector is set'])
  })

  test('null and blank fields count as absent', () => {
    expect(problemsOf(spec({ errors: null, replicas: null, processorImage: '', transformations: null, scheduling: null }))).toEqual([])
  })

  test('unknown keys are ignored, each with a warning', () => {
    const given = {
      ...spec({ sparkles: 1 }),
      source: { ...source('kafka', { shiny: true }), extra: 1 },
      transformations: [step('snakeCase', { wide: true })],
    }
    expect(warningsOf(given)).toEqual([
      'spec.source.extra: is not known and is ignored',
      'spec.source.config.shiny: is not known and is ignored',
      'spec.transformations[0].config.wide: is not known and is ignored',
      'spec.sparkles: is not known and is ignored',
    ])
  })
})

test.each<[string, object, string]>([
  [
    'a polling source',
    { source: source('postgresql') },
    'spec.source.config: deleted rows are not detected; late commits need overlapSeconds or postgresql-cdc',
  ],
  [
    'a password',
    { sink: sink('kafka', { sasl: { username: 'u', password: 'p' } }) },
    'spec.sink.config.sasl.password: use passwordSecretRef',
  ],
  [
    'a password in an address',
    { sink: sink('postgresql', { connectionString: 'postgres://u:p@h/d' }) },
    'spec.sink.config.connectionString: use connectionStringSecretRef',
  ],
  [
    'an unverified server',
    { sink: sink('kafka', { tls: { insecureSkipVerify: true } }) },
    'spec.sink.config.tls.insecureSkipVerify: the server is not verified: give a CA instead',
  ],
  [
    'small batches',
    { sink: sink('kafka', { batchSize: 99 }) },
    'spec.sink.config.batchSize: is below a tenth of the default 1000: writes will be slow',
  ],
  ['async', { sink: sink('kafka', { async: true }) }, 'spec.sink.config.async: is ignored: the sink always waits for acknowledgment'],
])('warned of: %s', (_what, given, warning) => {
  expect(problemsOf(spec({ ...given }))).toEqual([])
  expect(warningsOf(spec({ ...given }))).toContain(warning)
})

describe('secrets', () => {
  const given = spec({
    source: { type: 'kafka', kafka: { brokersSecretRef: ref, topicSecretRef: { ...ref, namespace: 'other' }, topic: 'direct' } },
    sink: sink('kafka', { tls: { caSecretRef: ref } }),
    transformations: [
      step('router', { routes: [{ condition: 'a', sink: { type: 'kafka', config: { brokers: ['b'], topicSecretRef: ref } } }] }),
    ],
    errors: { type: 'postgresql', config: { connectionStringSecretRef: ref, table: 't' } },
  })

  test('each secret is listed with the path of its reference', () => {
    expect(judge(given).flow?.secrets.map(({ path, ref: { namespace } }) => [path, namespace])).toEqual([
      ['spec.source.kafka.brokersSecretRef', undefined],
      ['spec.source.kafka.topicSecretRef', 'other'],
      ['spec.sink.config.tls.caSecretRef', undefined],
      ['spec.transformations[0].config.routes[0].sink.config.topicSecretRef', undefined],
      ['spec.errors.config.connectionStringSecretRef', undefined],
    ])
  })

  test('resolved secrets replace references and direct values', () => {
    const flow = judge(given).flow!
    const resolved = resolveSecrets(flow, (_ref, { path }) => {
      if (path.endsWith('brokersSecretRef')) return 'x:1, y:2'
      return path.includes('.tls.') ? '-----BEGIN CERTIFICATE-----' : 'value'
    })
    expect(resolved.source.config).toMatchObject({ brokers: ['x:1', 'y:2'], topic: 'value' })
    expect(findSink(resolved, '0.0').config).toMatchObject({ topic: 'value' })
    expect(resolved.errors?.sink.config).toMatchObject({ connectionString: 'value' })
    expect(resolved.secrets).toEqual([])
    const text = JSON.stringify(printSpec(resolved))
    expect(text).not.toContain('SecretRef')
    expect(normalize(printSpec(resolved), { namespace: 'ns', name: 'orders' })).toMatchObject({ problems: [] })
    expect(flow.secrets).toHaveLength(5)
  })

  test('a secret that another namespace does not share is a problem', () => {
    expect(notShared('spec.source.config.topicSecretRef', { namespace: 'b', name: 's' }, 'a')).toEqual({
      path: 'spec.source.config.topicSecretRef',
      rule: 'V37',
      reason: 'secret b/s is not shared with namespace a',
    })
  })
})

describe('the written form of a flow', () => {
  const steps = [
    step('timestamp', { fieldName: 'meta.at', format: 'rfc1123', timezone: 'Europe/Berlin' }),
    step('timestamp', { format: 'unixmilli' }, { when: 'a == 1' }),
    step('flatten', { field: 'o.items' }),
    step('filter', { condition: "a matches '^x'" }),
    step('mask', { fields: ['$.a', 'u.#.b'], keepLength: true }, { onNonJson: 'pass' }),
    step('router', {
      routes: [{ condition: 'a', name: 'r', after: '90s', onUnavailable: 'deadletter', sink: sink('postgresql', { upsertMode: true }) }],
    }),
    step('select', { fields: ['a'] }),
    step('remove', { fields: ['a'] }),
    step('snakeCase'),
    step('camelCase', { deep: true, style: 'lower' }),
    step('debeziumUnwrap', { addSourceFields: ['table'] }),
    step('replaceField', { exclude: ['a'], renames: ['a:b.c', '$.x\\:y:z'] }),
    step('headersToPayload', { mappings: ['a\\:b:c'] }),
    step('structFlatten', { delimiter: ' ' }),
    step('extractField', { field: '$' }),
    step('hoistField', { field: 'a' }),
    step('cast', { spec: { a: 'int64', b: null } }),
    step('timezone', { timezone: '+02:00', fields: ['a'], format: 'unix' }),
    step('insertField', { fields: { a: 'text', b: '${now}', c: '${metadata.headers.x}', d: 'json:{"x":1}', e: '' } }),
  ]

  test.each(Object.keys(minimalSources).flatMap((from) => Object.keys(minimalSinks).map((to) => [from, to] as const)))(
    'from %s to %s reads as the same flow',
    (from, to) => {
      const given = {
        source: source(from),
        sink: sink(to),
        errors: sink(to),
        transformations: steps,
        maintenance: { startTime: '2026-01-01T00:00:00Z', duration: '90m', repeat: 'Weekly' },
      }
      const { flow, problems } = normalize(given)
      expect(problems).toEqual([])
      expect(normalize(printSpec(flow!)).flow).toEqual(flow)
      expect(JSON.parse(JSON.stringify(printSpec(flow!)))).toEqual(printSpec(flow!))
    },
  )

  test('a printed DataFlowCron reads as the same flow', () => {
    const { flow } = normalize(spec({ schedule: '@daily', triggers: [{ image: 'i', args: ['', 'x'] }] }), { kind: 'DataFlowCron' })
    expect(flow?.cron).toMatchObject({
      schedule: '0 0 * * *',
      timeZone: 'UTC',
      concurrencyPolicy: 'Forbid',
      triggers: [{ image: 'i', args: ['', 'x'] }],
    })
    expect(normalize(printSpec(flow!), { kind: 'DataFlowCron' }).flow).toEqual(flow)
  })

  test('a printed flow matches the JSON schema', () => {
    const { flow } = normalize({ ...spec({ transformations: steps, errors: sink('kafka') }) })
    expect(DataFlowSpec.safeParse(printSpec(flow!)).error).toBeUndefined()
    expect(DataFlowSpec.safeParse({ ...spec(), replicas: -1 }).success).toBe(false)
    expect(z.toJSONSchema(DataFlowCronSpec, { io: 'input' })).toMatchObject({ type: 'object', required: ['source', 'sink'] })
  })
})

test('a rejection names the object and the number of problems and is truncated', () => {
  const { problems } = judge({})
  const object = { kind: 'DataFlow', namespace: 'ns', name: 'a' }
  expect(refusalMessage(object, problems)).toBe(
    'DataFlow "ns/a" is invalid: 2 problem(s): spec.source: is required; spec.sink: is required',
  )
  expect(
    refusalMessage(
      object,
      Array.from({ length: 500 }, () => problems[0]!),
    ),
  ).toHaveLength(3000)
})

test('validate accepts any JSON without an exception', () => {
  const known = fc.constantFrom(
    'source',
    'sink',
    'transformations',
    'type',
    'config',
    'kafka',
    'errors',
    'fields',
    'routes',
    'condition',
    '__proto__',
    'tls',
    'brokers',
    'spec',
  )
  const value = fc.letrec<{ any: unknown }>((tie) => ({
    any: fc.oneof(
      { depthSize: 'medium' },
      fc.constantFrom('kafka', 'mask', 'router', 'a', '', 1, -1, true, null),
      fc.array(tie('any'), { maxLength: 3 }),
      fc.dictionary(known, tie('any'), { maxKeys: 5 }),
    ),
  })).any
  fc.assert(
    fc.property(fc.dictionary(known, value), (given) => {
      const { flow, problems } = judge(given)
      expect(flow === undefined).toBe(problems.length > 0)
      for (const { path, reason } of problems) expect(path.startsWith('spec') && reason !== '').toBe(true)
    }),
    { numRuns: 1000 },
  )
  expect(({} as Record<string, unknown>)['type']).toBeUndefined()
})
