import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { judge, minimalSinks, minimalSources, problemsOf, sink, source, spec, step, warningsOf } from '../test-parts/specs.ts'
import { specText } from './print-spec.ts'

const withStep = (...steps: unknown[]) => spec({ transformations: steps })
const at = 'spec.transformations[0].config'

test('[D9] paths that a transform cannot read or write are rejected', () => {
  const select = (path: string) => problemsOf(withStep(step('select', { fields: [path] })))
  expect(select('$..x')).toEqual([`V12 ${at}.fields[0]: column 3: expected a key: $.. is not supported`])
  expect(select('a|b')).toEqual([expect.stringMatching(/^V12 .*column 2: .*pipes/)])
  expect(select('@reverse')).toEqual([`V12 ${at}.fields[0]: column 1: expected a key: @modifiers are not supported`])
  expect(select('a..b')).toEqual([`V12 ${at}.fields[0]: column 3: expected a key`])
  expect(problemsOf(withStep(step('mask', { fields: ['a.#'] })))).toEqual([expect.stringMatching(/^V12 .*path "a.#" cannot be written: /)])
  expect(problemsOf(withStep(step('flatten', { field: 'a.#.b' })))).toEqual([`V18 ${at}.field: must name one place`])
})

test('[D47] both published shapes and scheduling normalize to the same flow', () => {
  const place = { nodeSelector: { disk: 'ssd' }, tolerations: [{ key: 'k' }] }
  const routes = [{ condition: 'a', sink: sink('postgresql') }]
  const config = spec({ transformations: [step('mask', { fields: ['a'] }), step('router', { routes })], errors: sink('kafka'), ...place })
  const blocks = {
    source: { type: 'Kafka', kafka: minimalSources['kafka'] },
    sink: { type: 'kafka', kafka: minimalSinks['kafka'] },
    transformations: [
      { type: 'mask', mask: { fields: ['a'] } },
      { type: 'ROUTER', router: { routes: [{ condition: 'a', sink: { type: 'postgresql', postgresql: minimalSinks['postgresql'] } }] } },
    ],
    errors: { type: 'kafka', kafka: minimalSinks['kafka'] },
  }
  const flows = [config, { ...blocks, ...place }, { ...blocks, scheduling: place }].map((given) => judge(given))
  expect(flows.map(({ problems, warnings }) => [problems, warnings])).toEqual([
    [[], []],
    [[], []],
    [[], []],
  ])
  const [first, ...others] = flows.map(({ flow }) => flow!)
  for (const other of others) expect(other).toEqual(first)
  const hash = (text: string) => createHmac('sha256', 'salt').update(text).digest('hex')
  for (const other of others) expect(hash(specText(other))).toBe(hash(specText(first!)))
})

test('[D48] two different blocks and a block of another type are rejected', () => {
  const twice = { type: 'kafka', config: minimalSources['kafka'], kafka: { ...minimalSources['kafka'], topic: 'other' } }
  expect(problemsOf(spec({ source: twice }))).toEqual(['V5 spec.source: give either config or kafka, not both'])
  const foreign = { type: 'kafka', postgresql: minimalSources['postgresql'] }
  expect(problemsOf(spec({ source: foreign }))).toContain('V6 spec.source.postgresql: is set but type is kafka')
})

test('[D49] missing fields are reported at the path the user wrote', () => {
  expect(problemsOf(undefined)).toEqual(['V2 spec: is required'])
  expect(problemsOf(spec({ source: { config: {} } }))).toEqual(['V1 spec.source.type: is required'])
  expect(problemsOf(spec({ source: { type: 'rabbitmq' } }))).toEqual([
    'V3 spec.source.type: "rabbitmq" is not known; use one of: clickhouse, iceberg, kafka, nessie, postgresql, postgresql-cdc, trino',
  ])
  expect(problemsOf(spec({ source: { type: 'kafka' } }))).toEqual(['V4 spec.source: type kafka needs a config block'])
  expect(problemsOf(spec({ source: { type: 'kafka', kafka: {} } }))).toEqual([
    'V1 spec.source.kafka.brokers: is required: set brokers or brokersSecretRef',
    'V1 spec.source.kafka.topic: is required: set topic or topicSecretRef',
  ])
  expect(problemsOf(spec({ source: { type: 'kafka', config: {} } }))[0]).toContain('spec.source.config.brokers')
})

test('[D50] transforms without required fields are rejected', () => {
  expect(problemsOf(withStep(step('filter')))).toEqual(['V4 spec.transformations[0]: type filter needs a config block'])
  expect(problemsOf(withStep(step('snakeCase')))).toEqual([])
  expect(problemsOf(withStep(step('flatten', { field: '' })))).toEqual([`V1 ${at}.field: is required`])
  expect(problemsOf(withStep(step('mask', { fields: [] })))).toEqual([`V14 ${at}.fields: needs at least one entry`])
  expect(problemsOf(withStep(step('filter', { condition: ' ' })))).toEqual([`V1 ${at}.condition: is required`])
})

test('[D51] a minimal block of every type and secret references are accepted', () => {
  const kafka = (ref: unknown) => spec({ source: { type: 'kafka', config: { brokers: ['a'], topicSecretRef: ref } } })
  expect(problemsOf(kafka({ key: 'k' }))).toEqual(['V7 spec.source.config.topicSecretRef: a secret reference needs name and key'])
  expect(problemsOf(kafka({ name: 'n' }))).toEqual(['V7 spec.source.config.topicSecretRef: a secret reference needs name and key'])
  expect(problemsOf(kafka({ name: 'n', key: 'k' }))).toEqual([])
  for (const type of Object.keys(minimalSources)) expect([type, problemsOf(spec({ source: source(type) }))]).toEqual([type, []])
  for (const type of Object.keys(minimalSinks)) expect([type, problemsOf(spec({ sink: sink(type) }))]).toEqual([type, []])
})

test('[D52] securityProtocol requires its settings', () => {
  const secured = (securityProtocol: string, parts: object) => spec({ sink: sink('kafka', { securityProtocol, ...parts }) })
  const login = { sasl: { username: 'u', password: 'p' } }
  const where = 'spec.sink.config.securityProtocol'
  expect(problemsOf(secured('PLAINTEXT', login))).toEqual([`V19 ${where}: PLAINTEXT forbids sasl`])
  expect(problemsOf(secured('SSL', {}))).toEqual([`V19 ${where}: SSL needs tls`])
  expect(problemsOf(secured('SASL_PLAINTEXT', { ...login, tls: {} }))).toEqual([`V19 ${where}: SASL_PLAINTEXT forbids tls`])
  expect(judge(secured('sasl-ssl', { ...login, tls: {} })).flow?.sink.config).toMatchObject({ securityProtocol: 'SASL_SSL' })
})

test('[D53] invalid names, empty cdc tables and unknown modes are rejected', () => {
  const polling = (more: object) => problemsOf(spec({ source: source('postgresql', { ...more }) }))
  const cdc = (more: object) => problemsOf(spec({ source: source('postgresql-cdc', { ...more }) }))
  expect(polling({ orderByColumn: 'id; drop table x' })).toEqual([
    'V11 spec.source.config.orderByColumn: "id; drop table x" is not an identifier',
  ])
  expect(polling({ table: 'public.a b' })).toEqual(['V11 spec.source.config.table: "public.a b" is not an identifier'])
  expect(cdc({ tables: [] })).toEqual(['V14 spec.source.config.tables: needs at least one entry'])
  expect(cdc({ snapshotMode: 'sometimes' })).toEqual([
    'V3 spec.source.config.snapshotMode: "sometimes" is not known; use one of: always, initial, never',
  ])
})

test('[D54] schedule, triggers and replicas of a DataFlowCron are validated', () => {
  const cron = (more: object) => problemsOf(spec({ schedule: '*/5 * * * *', ...more }), { kind: 'DataFlowCron' })
  expect(cron({})).toEqual([])
  expect(cron({ schedule: '0 */5 * * * *' })).toEqual([])
  expect(cron({ schedule: '30 * * * * *' })).toEqual(['V10 spec.schedule: seconds are not supported: the finest step is one minute'])
  expect(cron({ schedule: '* * * *' })).toEqual(['V10 spec.schedule: "* * * *" is not a cron text'])
  expect(cron({ triggers: [{ name: 'a' }] })).toEqual(['V1 spec.triggers[0].image: is required'])
  expect(cron({ replicas: 2 })).toEqual(['V33 spec.replicas: a scheduled flow runs with one replica'])
})

test('[D55] a polling source with an insert-only sink is warned about', () => {
  const text = 'spec.sink.config: a re-read can write a row twice: use upsertMode or exactlyOnce'
  const inserting = { source: source('postgresql'), sink: sink('postgresql') }
  expect(problemsOf({ ...inserting, strictIdempotency: false })).toEqual([])
  expect(warningsOf(inserting)).toContain(text)
  expect(problemsOf({ ...inserting, strictIdempotency: true })).toEqual([`V38 ${text}`])
})

describe('every rule reports path and reason', () => {
  const kafkaSource = (more: object) => spec({ source: source('kafka', { ...more }) })
  const kafkaSink = (more: object) => spec({ sink: sink('kafka', { ...more }) })
  const pgSink = (more: object) => spec({ sink: sink('postgresql', { ...more }) })
  const iceberg = (more: object) => spec({ sink: sink('iceberg', { ...more }) })
  const trino = (more: object) => spec({ source: source('trino', { ...more }) })
  const routes = (...names: string[]) => [step('router', { routes: names.map((name) => ({ name, condition: 'a', sink: sink('kafka') })) })]
  const sinkAt = 'spec.sink.config'
  const sourceAt = 'spec.source.config'

  test.each<[string, unknown, string[]]>([
    ['source and sink are needed', {}, ['V1 spec.source: is required', 'V1 spec.sink: is required']],
    ['a spec that is no map', 'text', ['V2 spec: is required']],
    ['types of values', kafkaSource({ topic: 5 }), [`V8 ${sourceAt}.topic: must be a string, not a number`]],
    ['lists', kafkaSource({ brokers: 'a:9092' }), [`V8 ${sourceAt}.brokers: must be a list, not a string`]],
    ['maps', spec({ source: source('kafka', { tls: 'x' }) }), [`V8 ${sourceAt}.tls: must be a map, not a string`]],
    ['whole numbers', spec({ replicas: 1.5 }), ['V8 spec.replicas: must be a whole number, not a number']],
    ['both bounds', spec({ transformWorkers: 65 }), ['V9 spec.transformWorkers: must be from 1 to 64, not 65']],
    ['a lower bound', kafkaSink({ batchSize: -1 }), [`V9 ${sinkAt}.batchSize: must be at least 0, not -1`]],
    ['sizes', spec({ maxInFlightBytes: '1Ki' }), ['V9 spec.maxInFlightBytes: must be at least 1Mi, not 1Ki']],
    ['an open bound', kafkaSource({ fetchMaxBytes: 0 }), [`V9 ${sourceAt}.fetchMaxBytes: must be more than 0, not 0`]],
    ['durations', spec({ checkpointSaveInterval: '500ms' }), ['V9 spec.checkpointSaveInterval: must be at least 1s, not 500ms']],
    ['no duration', spec({ checkpointSaveInterval: 'soon' }), ['V10 spec.checkpointSaveInterval: "soon" is not a duration']],
    ['no quantity', spec({ maxMessageBytes: 'big' }), ['V10 spec.maxMessageBytes: "big" is not a quantity']],
    [
      'no time',
      spec({ maintenance: { startTime: 'noon', duration: '1h' } }),
      ['V10 spec.maintenance.startTime: "noon" is not a RFC3339 time'],
    ],
    ['no zone', spec({ maintenance: { timezone: '+01:00' } }), ['V10 spec.maintenance.timezone: "+01:00" is not a time zone']],
    [
      'no snapshot',
      spec({ source: source('iceberg', { startSnapshotID: 'x1' }) }),
      [`V10 ${sourceAt}.startSnapshotID: "x1" is not a snapshot id`],
    ],
    [
      'start offset',
      kafkaSource({ startOffset: 'banana' }),
      [`V3 ${sourceAt}.startOffset: "banana" is not known; use one of: RFC3339 time, earliest, latest`],
    ],
    ['conflict key', pgSink({ conflictKey: 'id,a b' }), [`V11 ${sinkAt}.conflictKey: "a b" is not an identifier`]],
    ['a condition', withStep(step('filter', { condition: 'a ==' })), [`V13 ${at}.condition: column 5: expected a value`]],
    [
      'a when',
      withStep(step('snakeCase', {}, { when: 'a &&' })),
      ['V13 spec.transformations[0].when: column 5: expected a path, "!" or "("'],
    ],
    [
      'a pattern',
      withStep(step('filter', { condition: "a matches '('" })),
      [`V13 ${at}.condition: column 11: expected a pattern in RE2 syntax (missing closing ): \`(\`)`],
    ],
    ['empty maps', withStep(step('cast', { spec: {} })), [`V14 ${at}.spec: needs at least one entry`]],
    ['absent lists', withStep(step('timezone', { timezone: 'UTC' })), [`V14 ${at}.fields: needs at least one entry`]],
    ['absent routes', withStep(step('router', {})), [`V14 ${at}.routes: needs at least one entry`]],
    ['blank entries', withStep(step('remove', { fields: ['a', ' '] })), [`V1 ${at}.fields[1]: is required`]],
    [
      'header mappings',
      withStep(step('headersToPayload', { mappings: ['a:b:c', ':x', 'x'] })),
      [
        `V15 ${at}.mappings[0]: "a:b:c" must have the form header:path`,
        `V15 ${at}.mappings[1]: ":x" must have the form header:path`,
        `V15 ${at}.mappings[2]: "x" must have the form header:path`,
      ],
    ],
    [
      'columns of cdc',
      spec({ source: source('postgresql-cdc', { includeColumns: ['a'], excludeColumns: ['b'] }) }),
      [`V16 ${sourceAt}: includeColumns and excludeColumns exclude each other`],
    ],
    ['an empty delimiter', withStep(step('structFlatten', { delimiter: '' })), [`V17 ${at}.delimiter: must not be empty`]],
    ['an empty mask character', withStep(step('mask', { fields: ['a'], maskChar: '' })), [`V17 ${at}.maskChar: must not be empty`]],
    ['a key field', kafkaSink({ keyField: 'a.#.b' }), [`V18 ${sinkAt}.keyField: must name one place`]],
    [
      'a whole payload',
      withStep(step('remove', { fields: ['$'] })),
      [`V12 ${at}.fields[0]: path "$" cannot be written: it names the whole payload`],
    ],
    [
      'set only',
      withStep(step('timestamp', { fieldName: 'a.*' })),
      [`V12 ${at}.fieldName: path "a.*" cannot be written: only keys and indexes can be set`],
    ],
    [
      'PLAINTEXT with both',
      kafkaSink({ securityProtocol: 'plaintext', tls: {}, sasl: { username: 'u', password: 'p' } }),
      [`V19 ${sinkAt}.securityProtocol: PLAINTEXT forbids tls`, `V19 ${sinkAt}.securityProtocol: PLAINTEXT forbids sasl`],
    ],
    [
      'SASL_SSL without either',
      kafkaSink({ securityProtocol: 'SASL SSL' }),
      [`V19 ${sinkAt}.securityProtocol: SASL_SSL needs tls`, `V19 ${sinkAt}.securityProtocol: SASL_SSL needs sasl`],
    ],
    [
      'half a login',
      kafkaSink({ sasl: { usernameSecretRef: { name: 'n', key: 'k' } } }),
      [`V20 ${sinkAt}.sasl: sasl needs username and password`],
    ],
    [
      'a short read timeout',
      kafkaSource({ netReadTimeout: '500ms' }),
      [`V21 ${sourceAt}.netReadTimeout: must be longer than consumerMaxWait`],
    ],
    [
      'idempotent without all',
      kafkaSink({ requiredAcks: 'local', idempotent: true }),
      [`V22 ${sinkAt}.idempotent: idempotent needs requiredAcks all`],
    ],
    [
      'unconfirmed with errors',
      { ...kafkaSink({ requiredAcks: 'none' }), errors: sink('kafka') },
      [`V22 ${sinkAt}.requiredAcks: requiredAcks none cannot confirm a write`],
    ],
    [
      'unconfirmed exactly once',
      kafkaSink({ requiredAcks: 'none', exactlyOnce: 'required' }),
      [`V22 ${sinkAt}.requiredAcks: requiredAcks none cannot confirm a write`],
    ],
    [
      'unconfirmed letters',
      spec({ errors: sink('kafka', { requiredAcks: 'none' }) }),
      ['V22 spec.errors.config.requiredAcks: requiredAcks none cannot confirm a write'],
    ],
    [
      'avro without schema',
      kafkaSource({ format: 'avro' }),
      [`V23 ${sourceAt}.format: avro needs avroSchema, avroSchemaFile, avroSchemaSecretRef or schemaRegistry`],
    ],
    ['ifNewer', pgSink({ upsertStrategy: 'ifnewer' }), [`V24 ${sinkAt}.upsertStrategy: ifNewer needs upsertVersionColumn`]],
    ['upserts of iceberg', iceberg({ upsertMode: true }), [`V25 ${sinkAt}.upsertMode: iceberg sinks append only`]],
    [
      'upserts of trino',
      spec({ sink: sink('trino', { upsertMode: true, conflictKey: 'id' }) }),
      [`V25 ${sinkAt}.upsertMode: trino sinks append only`],
    ],
    ['metadata columns', pgSink({ flattenMetadataColumns: true }), [`V26 ${sinkAt}.flattenMetadataColumns: needs rawMode`]],
    [
      'their prefix',
      pgSink({ rawMode: true, flattenMetadataColumnsPrefix: 'a b' }),
      [`V26 ${sinkAt}.flattenMetadataColumnsPrefix: "a b" is not an identifier`],
    ],
    ['bearer', iceberg({ authenticationType: 'bearer' }), [`V27 ${sinkAt}.authenticationType: BEARER needs bearerToken or tokenSecretRef`]],
    ['basic', iceberg({ authenticationType: 'basic', basicAuth: { username: 'u' } }), [`V27 ${sinkAt}: BASIC needs username and password`]],
    ['half of oauth2', iceberg({ oauth2ClientID: 'c' }), [`V27 ${sinkAt}: oauth2 needs oauth2ClientID and oauth2ClientSecret`]],
    [
      'two logins',
      iceberg({ bearerToken: 't', oauth2ClientID: 'c', oauth2ClientSecret: 's' }),
      [`V27 ${sinkAt}: bearer and oauth2 exclude each other`],
    ],
    ['half of S3', iceberg({ accessKey: 'a' }), [`V27 ${sinkAt}: set both S3 keys or none`]],
    ['trino without its token', trino({ auth: 'bearer' }), [`V27 ${sourceAt}: auth: bearer requires bearerToken or bearerTokenSecretRef`]],
    [
      'trino oauth2',
      trino({ oauth2: { tokenURL: 'http://h', clientID: 'c' } }),
      [`V27 ${sourceAt}: auth: oauth2 requires clientID and clientSecret`],
    ],
    [
      'keycloak, not yet',
      trino({ auth: 'keycloak' }),
      [`V3 ${sourceAt}.auth: "keycloak" is not known; use one of: basic, bearer, none, oauth2`],
    ],
    [
      'a keycloak block, not yet',
      trino({ keycloak: { realm: 'r' } }),
      [`V3 ${sourceAt}.keycloak: keycloak is not supported in this release; use one of: basic, bearer, none, oauth2`],
    ],
    ['compat, not yet', spec({ compat: 'original' }), ['V3 spec.compat: "original" is not known; use one of: safe']],
    [
      'a query on tables',
      spec({ source: source('nessie', { query: 'select 1' }) }),
      [`V29 ${sourceAt}.query: query is not supported here: use a trino source`],
    ],
    [
      'a table or a query',
      spec({ source: { type: 'trino', config: { serverURL: 'u', catalog: 'c', schema: 's' } } }),
      [`V1 ${sourceAt}.table: is required: set table or tableSecretRef`],
    ],
    [
      'no bound on a batch',
      kafkaSink({ batchSize: 0, batchFlushIntervalSeconds: 0 }),
      [`V30 ${sinkAt}: batchSize and batchFlushIntervalSeconds cannot both be 0`],
    ],
    [
      'exactlyOnce required from another source type is rejected',
      { source: source('postgresql-cdc'), sink: sink('kafka', { exactlyOnce: 'required' }) },
      [`V31 ${sinkAt}.exactlyOnce: kafka cannot write exactly once here: the source is not kafka`],
    ],
    [
      'exactlyOnce required to another Kafka cluster is rejected',
      kafkaSink({ exactlyOnce: 'required', brokers: ['b:9092'] }),
      [`V31 ${sinkAt}.exactlyOnce: kafka cannot write exactly once here: source and sink are different clusters`],
    ],
    [
      'exactlyOnce required in two sinks of one message is rejected',
      {
        ...spec({ sink: sink('kafka', { exactlyOnce: 'required' }) }),
        transformations: [
          step('flatten', { field: 'rows' }),
          step('router', {
            routes: [
              { condition: 'a', sink: sink('kafka', { exactlyOnce: 'required' }) },
              { condition: 'b', sink: sink('kafka') },
            ],
          }),
        ],
      },
      [
        'V31 spec.transformations[1].config.routes[0].sink.config.exactlyOnce: kafka cannot write exactly once here: flatten and router can send records of one message to this sink and to another with exactlyOnce required',
      ],
    ],
    [
      'exactly once to trino',
      spec({ sink: sink('trino', { exactlyOnce: 'required' }) }),
      [`V31 ${sinkAt}.exactlyOnce: trino cannot write exactly once here: it needs upsertMode, which trino sinks do not have`],
    ],
    ['negative resources', spec({ resources: { requests: { cpu: '-1' } } }), ['V32 spec.resources.requests.cpu: must not be negative']],
    [
      'a request above its limit',
      spec({ resources: { requests: { memory: '1Gi' }, limits: { memory: '512Mi' } } }),
      ['V32 spec.resources.requests.memory: request exceeds limit'],
    ],
    [
      'resources that are none',
      spec({ resources: { limits: { cpu: 'lots' } } }),
      ['V10 spec.resources.limits.cpu: "lots" is not a quantity'],
    ],
    [
      'replicas',
      { ...spec({ replicas: 2 }), source: source('postgresql') },
      ['V33 spec.replicas: only kafka sources run with more than one replica'],
    ],
    ['half a window', spec({ maintenance: { duration: '1h' } }), ['V34 spec.maintenance: startTime and duration belong together']],
    [
      'a window without end',
      spec({ maintenance: { startTime: '2026-01-01T00:00:00Z', duration: '24h', repeat: 'daily' } }),
      ['V34 spec.maintenance.duration: is not shorter than its repeat period'],
    ],
    ['names of routes', withStep(...routes('a', 'b', 'a')), [`V36 ${at}.routes[2].name: "a" is used by routes 0 and 2`]],
    [
      'a sink of a route',
      withStep(step('router', { routes: [{ condition: 'a', sink: { type: 'kafka', kafka: {} } }] })),
      [
        `V1 ${at}.routes[0].sink.kafka.brokers: is required: set brokers or brokersSecretRef`,
        `V1 ${at}.routes[0].sink.kafka.topic: is required: set topic or topicSecretRef`,
      ],
    ],
    ['a route without sink', withStep(step('router', { routes: [{ condition: 'a' }] })), [`V1 ${at}.routes[0].sink: is required`]],
    [
      'an unknown transform',
      withStep(step('explode')),
      [expect.stringMatching(/^V3 spec.transformations\[0\].type: "explode" is not known; use one of: camelCase, cast, /) as string],
    ],
    [
      'onNonJson',
      withStep(step('snakeCase', {}, { onNonJson: 'drop' })),
      ['V3 spec.transformations[0].onNonJson: "drop" is not known; use one of: error, pass'],
    ],
    [
      'errors',
      spec({ errors: { ...sink('kafka'), ackPolicy: 'always', maxConsecutive: -1 } }),
      [
        'V3 spec.errors.ackPolicy: "always" is not known; use one of: afterMainSinkSuccess, afterWrite, never',
        'V9 spec.errors.maxConsecutive: must be at least 0, not -1',
      ],
    ],
  ])('%s', (_what, given, problems) => {
    expect(problemsOf(given)).toEqual(problems)
  })

  test('object names are limited by the names of child objects', () => {
    expect(problemsOf(spec(), { metadata: { name: 'a'.repeat(64) } })).toEqual(['V35 metadata.name: must be at most 63 characters'])
    const cron = { kind: 'DataFlowCron', metadata: { name: 'a'.repeat(37) } }
    expect(problemsOf(spec({ schedule: '@daily' }), cron)).toEqual(['V35 metadata.name: must be at most 36 characters'])
  })

  test('problems of different parts are all reported', () => {
    expect(
      problemsOf({ source: { type: 'kafka', config: {} }, sink: sink('kafka', { securityProtocol: 'SSL' }), replicas: -1 }),
    ).toHaveLength(4)
  })
})
