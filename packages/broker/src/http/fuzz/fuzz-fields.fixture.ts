// Fields and query parameters that the contract knows, with values that fit its schema and are odd all the same.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { z } from 'zod'
import { setIn } from './fuzz-places.fixture.ts'
import { oddTexts, oddTimes, oddValues, type Random } from './fuzz-random.fixture.ts'
import type { FuzzRequest } from './fuzz-requests.fixture.ts'
import type { FuzzWorld } from './fuzz-world.fixture.ts'

type Schema = { readonly [key: string]: unknown }
const schemaOf = (type: z.ZodType | undefined): Schema => (type === undefined ? {} : z.toJSONSchema(type, { io: 'input' }))
const propertiesOf = (schema: Schema): [string, Schema][] => Object.entries((schema['properties'] ?? {}) as Record<string, Schema>)

export function addField(world: FuzzWorld, random: Random, request: FuzzRequest): void {
  const fields = propertiesOf(schemaOf((endpoints[request.name] as Endpoint).body))
  if (fields.length === 0) return
  const [key, schema] = random.pick(fields)
  setIn(request, key, valueFor(world, random, schema))
}

export function addQuery(world: FuzzWorld, random: Random, request: FuzzRequest): void {
  const fields = propertiesOf(schemaOf((endpoints[request.name] as Endpoint).query))
  if (fields.length === 0) return
  const [key, schema] = random.pick(fields)
  const value = valueFor(world, random, schema)
  for (const one of Array.isArray(value) ? value : [value]) request.query.push([key, String(one)])
}

function valueFor(world: FuzzWorld, random: Random, schema: Schema): unknown {
  const branches = (schema['anyOf'] ?? schema['oneOf']) as Schema[] | undefined
  if (branches !== undefined) return valueFor(world, random, random.pick(branches))
  if (schema['const'] !== undefined) return schema['const']
  if (Array.isArray(schema['enum'])) return random.pick(schema['enum'])
  switch ([schema['type']].flat()[0]) {
    case 'string':
      if (schema['format'] === 'uuid') return random.pick(world.ids)
      return random
        .pick(schema['format'] === 'date-time' ? oddTimes : oddTexts)
        .slice(0, (schema['maxLength'] as number | undefined) ?? 300)
    case 'integer':
      return random.pick([0, 1, 2, 7, 1000, 10_000, 2 ** 31 - 1])
    case 'number':
      return random.pick([0, 0.5, 1e9])
    case 'boolean':
      return random.chance(0.5)
    case 'array':
      return Array.from({ length: random.int(4) }, () => valueFor(world, random, (schema['items'] ?? {}) as Schema))
    case 'object':
      if (schema['properties'] === undefined)
        return { [random.pick(oddTexts).replaceAll(/__proto__|constructor/g, 'p')]: random.pick(['v', 'x y']) }
      return Object.fromEntries(propertiesOf(schema).map(([key, entry]) => [key, valueFor(world, random, entry)]))
    case 'null':
      return null
    default:
      return random.pick(oddValues)
  }
}
