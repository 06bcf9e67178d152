// The one thing that is changed about a request that was right: gently, so that it reaches the handler, or harshly.
import { gzipSync } from 'node:zlib'
import { callers } from '../../auth/permissions.fixture.ts'
import { addField, addQuery } from './fuzz-fields.fixture.ts'
import { isId, isManifest, isNumber, isText, isTime, replaceIn, setIn, setRaw } from './fuzz-places.fixture.ts'
import { brokenTexts, oddIds, oddManifests, oddNumbers, oddTexts, oddTimes, oddValues, type Random } from './fuzz-random.fixture.ts'
import type { FuzzRequest } from './fuzz-requests.fixture.ts'
import type { FuzzWorld } from './fuzz-world.fixture.ts'

/** Still fits its schema: this one is for the handler and the database. */
export const mutateGently = (world: FuzzWorld, random: Random, request: FuzzRequest): void => mutate(gentle, { world, random, request })

/** One thing that does not fit, wherever it stands. */
export const mutateHarshly = (world: FuzzWorld, random: Random, request: FuzzRequest): void => mutate(harsh, { world, random, request })

/** Not every change fits every request: others are tried until one has changed something. */
function mutate(
  mutations: readonly Mutation[],
  { world, random, request }: { world: FuzzWorld; random: Random; request: FuzzRequest },
): void {
  const before = JSON.stringify(request)
  for (let tries = 0; tries < 20 && JSON.stringify(request) === before; tries += 1) {
    const { name, change } = random.pick(mutations)
    change(world, random, request)
    if (JSON.stringify(request) !== before) request.mutation = name
  }
}

interface Mutation {
  readonly name: string
  readonly change: (world: FuzzWorld, random: Random, request: FuzzRequest) => void
}

const gentle: readonly Mutation[] = [
  { name: 'odd text', change: (_, random, request) => replaceIn(random, request, isText, () => random.pick(oddTexts)) },
  { name: 'odd time', change: (_, random, request) => replaceIn(random, request, isTime, () => random.pick(oddTimes)) },
  { name: 'another id', change: (world, random, request) => replaceIn(random, request, isId, () => random.pick(world.ids)) },
  { name: 'another number', change: (_, random, request) => replaceIn(random, request, isNumber, () => random.int(1000)) },
  { name: 'an optional field', change: (world, random, request) => addField(world, random, request) },
  { name: 'a field nobody knows', change: (_, random, request) => setIn(request, random.text(5), random.pick(oddValues)) },
  { name: 'a query that fits', change: (world, random, request) => addQuery(world, random, request) },
  {
    name: 'a conditional header',
    change: (_, random, request) => {
      request.headers[random.pick(['if-match', 'if-none-match'])] = random.pick([
        '*',
        '"x"',
        'W/"1"',
        'W/"2026-01-02T03:04:05.000000Z"',
        '',
      ])
    },
  },
  {
    name: 'an Idempotency-Key',
    change: (_, random, request) => void (request.headers['idempotency-key'] = random.pick(['k', '!', '~'.repeat(255)])),
  },
  {
    name: 'what it accepts',
    change: (_, random, request) => {
      request.headers['accept'] = random.pick(['application/yaml', 'text/event-stream', '*/*;q=0', 'x', 'application/x-ndjson'])
      request.headers['accept-encoding'] = random.pick(['gzip', 'br;q=0', 'identity', '*', 'zstd'])
    },
  },
  {
    name: 'what it prefers',
    change: (_, random, request) => void (request.headers['prefer'] = random.pick(['return=representation', 'wait=1', '='])),
  },
  {
    name: 'a packed body',
    change: (_, __, request) => {
      if (request.body === undefined) return
      request.raw = gzipSync(JSON.stringify(request.body))
      request.headers['content-encoding'] = 'gzip'
    },
  },
  { name: 'a manifest', change: (_, random, request) => replaceIn(random, request, isManifest, () => random.pick(oddManifests)) },
  {
    name: 'raw YAML',
    change: (_, random, request) => {
      if (request.name !== 'createDeploymentObject') return
      request.raw = Buffer.from(random.pick(oddManifests))
      request.headers['content-type'] = random.pick(['application/yaml', 'text/yaml', 'application/x-yaml; charset=utf-8'])
    },
  },
  {
    name: 'an id in capitals',
    change: (_, __, request) => void (request.path = request.path.replace(/[0-9a-f-]{36}/, (id) => id.toUpperCase())),
  },
  {
    name: 'an odd last part of the path',
    change: (_, random, request) =>
      void (request.path = request.path.replace(/\/[lk]$/, () => `/${encodeURIComponent(random.pick(oddTexts))}`)),
  },
]

const harsh: readonly Mutation[] = [
  {
    name: 'another caller',
    change: (world, random, request) => void (request.headers['authorization'] = `Bearer ${world.paks[random.pick(callers)]}`),
  },
  {
    name: 'the system generator',
    change: (world, _, request) => void (request.path = request.path.replace(world.tenant.generator.id, world.systemGeneratorId)),
  },
  {
    name: 'a foreign thing',
    change: (world, random, request) =>
      void (request.path = request.path.replace(/[0-9a-f-]{36}/, () =>
        random.pick([world.otherAgent.agent.id, world.otherTenant.generator.id]),
      )),
  },
  { name: 'a long query', change: (_, __, request) => request.query.push(['name', 'x'.repeat(5000)]) },
  { name: 'a long body', change: (_, __, request) => void (request.body === undefined || (request.raw = Buffer.alloc(2_200_000, 0x20))) },
  {
    name: 'many labels',
    change: (_, random, request) =>
      setIn(
        request,
        'labels',
        Array.from({ length: 250 + random.int(10) }, (__, n) => `l${n}`),
      ),
  },
  { name: 'no query', change: (_, __, request) => void (request.query = []) },
  { name: 'broken text', change: (_, random, request) => replaceIn(random, request, isText, () => random.pick(brokenTexts)) },
  {
    name: 'another type',
    change: (_, random, request) =>
      replaceIn(
        random,
        request,
        () => true,
        () => random.pick(oddValues),
      ),
  },
  { name: 'an odd number', change: (_, random, request) => replaceIn(random, request, isNumber, () => random.pick(oddNumbers)) },
  { name: 'an odd id', change: (_, random, request) => replaceIn(random, request, isId, () => random.pick(oddIds)) },
  {
    name: 'an odd id in the path',
    change: (_, random, request) =>
      void (request.path = request.path.replace(/[0-9a-f-]{36}/, () => encodeURIComponent(random.pick(oddIds)))),
  },
  {
    name: 'a field left out',
    change: (_, random, request) =>
      replaceIn(
        random,
        request,
        () => true,
        () => undefined,
      ),
  },
  {
    name: 'a prototype key',
    change: (_, random, request) =>
      setRaw(request, (text) => text.replace('{', `{"${random.pick(['__proto__', 'constructor', 'prototype'])}":1,`)),
  },
  { name: 'a field named twice', change: (_, __, request) => setRaw(request, (text) => text.replace(/^\{("[^"]+":)/, '{$1null,$1')) },
  { name: 'a body cut short', change: (_, random, request) => setRaw(request, (text) => text.slice(0, random.int(text.length))) },
  { name: 'bytes that are no text', change: (_, __, request) => void (request.raw = Buffer.from([0x7b, 0xff, 0xfe, 0x00, 0x7d])) },
  { name: 'a deep body', change: (_, random, request) => setRaw(request, () => '['.repeat(10 ** random.int(5))) },
  { name: 'a large number', change: (_, __, request) => setRaw(request, (text) => text.replace(/:\s*("[^"]*"|\d+)/, ':1e999')) },
  {
    name: 'another content type',
    change: (_, random, request) =>
      void (request.headers['content-type'] = random.pick([
        'text/plain',
        'application/json; charset=latin1',
        'multipart/form-data',
        ';',
        'application/yaml',
      ])),
  },
  {
    name: 'an encoding that is a lie',
    change: (_, random, request) =>
      void (request.headers['content-encoding'] = random.pick(['gzip', 'br', 'deflate', 'zstd', 'gzip, gzip'])),
  },
  {
    name: 'a query that does not fit',
    change: (_, random, request) => {
      const key = random.pick([
        'limit',
        'offset',
        'cursor',
        'since',
        'from',
        'include_deleted',
        'pak_id',
        'label',
        'annotation',
        'mode',
        'reason',
        'name',
        'wait',
        'count',
        'scope',
        'expected_sequence_id',
      ])
      const value = random.pick([
        ...brokenTexts.map((text) => text.slice(0, 300)),
        ...oddTimes,
        ...oddIds,
        ...oddNumbers.map(String),
        'true',
        '[]',
        '%',
      ])
      request.query.push([key, value])
    },
  },
  {
    name: 'a key that is none',
    change: (_, random, request) =>
      void (request.headers['authorization'] = random.pick([
        '',
        'Bearer',
        'Bearer x',
        'Basic eA==',
        `Bearer brokkr_BR${random.text(6)}_${'z'.repeat(32)}`,
      ])),
  },
  {
    name: 'an Idempotency-Key that is none',
    change: (_, random, request) => void (request.headers['idempotency-key'] = random.pick(['', 'x'.repeat(256), 'a b'])),
  },
  {
    name: 'another method',
    change: (_, random, request) =>
      void Object.assign(request, { method: random.pick(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD']) }),
  },
  {
    name: 'a broken path',
    change: (_, random, request) => void (request.path += random.pick(['/', '//', '/%zz', '/%00', '/..', ';x', '%2f'])),
  },
]
