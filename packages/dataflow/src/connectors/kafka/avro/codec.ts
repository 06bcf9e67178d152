// Converts between Avro and JSON. A schema is compiled once into a type of the library, which encodes bytes, and two functions that map
// values: a long beyond 2^53 keeps its digits, bytes are base64, decimals are numbers, times are RFC3339.
import { isRawNumber, isRecord, type Json, type JsonObject, setKey } from '@brokkr/contract/dataflow/language/json.ts'
import avsc from 'avsc'
import { fromLogical, isLogical, toLogical } from './logical-types.ts'
import { AvroMismatch, integerJson, toBigint } from './numbers.ts'

export { AvroMismatch } from './numbers.ts'

export type Unions = 'unwrap' | 'wrap'
export interface AvroCodec {
  readonly type: avsc.Type
  toJson(value: unknown): Json
  /** Throws AvroMismatch, which names the path and the type, never the value. */
  fromJson(json: Json): unknown
}

/** A schema as JSON: a name, an object or a union. */
type SchemaJson = string | { [key: string]: unknown } | SchemaJson[]
interface Node {
  /** Name of the branch in a union. */
  readonly branch: string
  /** Whether an encoded value may have zero bytes. */
  isEmpty(): boolean
  toJson(value: unknown): Json
  fromJson(json: Json, path: string): unknown
}

/** `texts`: schemas in dependency order, the requested one last. */
export function compileAvro(texts: readonly string[], unions: Unions = 'unwrap'): AvroCodec {
  const names = new Map<string, Node>()
  const long = longType()
  const registry: Record<string, avsc.Type> = { long }
  const typeHook = (schema: unknown) => ((schema as { type?: unknown }).type === 'long' ? long : undefined)
  const arrays: Node[] = []
  let type: avsc.Type | undefined
  let node: Node | undefined
  for (const text of texts) {
    const schema = JSON.parse(text) as SchemaJson
    // Unions are wrapped: two records of a union cannot be distinguished otherwise.
    type = avsc.Type.forSchema(schema as avsc.Schema, { registry, typeHook, wrapUnions: 'always' })
    node = compile(schema, { names, unions, namespace: '', arrays })
  }
  // A few bytes could announce billions of items.
  if (arrays.some((items) => items.isEmpty())) throw new Error('the schema has an array whose items take no bytes')
  if (type === undefined || node === undefined) throw new Error('no schema')
  const root = node
  return { type, toJson: (value) => root.toJson(value), fromJson: (json) => root.fromJson(json, '$') }
}

interface Scope {
  readonly names: Map<string, Node>
  readonly unions: Unions
  readonly namespace: string
  /** Item schemas of arrays, checked when all names are known. */
  readonly arrays: Node[]
}

function compile(schema: SchemaJson, scope: Scope): Node {
  if (Array.isArray(schema)) return unionNode(schema, scope)
  if (typeof schema === 'string') return primitive(schema) ?? findNamedType(schema, scope)
  const { type } = schema
  if (typeof type === 'object' && type !== null) return compile(type as SchemaJson, scope)
  if (isLogical(schema)) return logicalNode(schema, scope)
  if (type === 'record' || type === 'error') return recordNode(schema, scope)
  if (type === 'array') return arrayNode(compile(schema['items'] as SchemaJson, scope), scope)
  if (type === 'map') return mapNode(compile(schema['values'] as SchemaJson, scope))
  if (type === 'enum') return defined(schema, scope, (branch) => enumNode(branch, schema['symbols'] as string[]))
  if (type === 'fixed') return defined(schema, scope, (branch) => bytesNode(branch, schema['size'] as number))
  return compile(type as string, scope)
}

const fullName = (name: string, namespace: string): string => (name.includes('.') || namespace === '' ? name : `${namespace}.${name}`)

function findNamedType(name: string, { names, namespace }: Scope): Node {
  const node = names.get(fullName(name, namespace)) ?? names.get(name)
  if (node === undefined) throw new Error(`schema names the unknown type ${name}`)
  return node
}

/** Registered before the type is built, because a type may refer to itself. */
function defined(schema: { [key: string]: unknown }, scope: Scope, make: (branch: string, inner: Scope) => Node): Node {
  const own = typeof schema['name'] === 'string' ? schema['name'] : ''
  const name = fullName(own, typeof schema['namespace'] === 'string' ? schema['namespace'] : scope.namespace)
  const namespace = name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : ''
  const target: { node?: Node; isAsking?: boolean } = {}
  scope.names.set(name, {
    branch: name,
    isEmpty: () => {
      if (target.isAsking === true) return true
      target.isAsking = true
      const answer = target.node!.isEmpty()
      target.isAsking = false
      return answer
    },
    toJson: (value) => target.node!.toJson(value),
    fromJson: (json, path) => target.node!.fromJson(json, path),
  })
  target.node = make(name, { ...scope, namespace })
  return scope.names.get(name)!
}

function recordNode(schema: { [key: string]: unknown }, scope: Scope): Node {
  return defined(schema, scope, (branch, inner) => {
    const fields = (schema['fields'] as { name: string; type: SchemaJson; default?: Json }[]).map((field) => ({
      name: field.name,
      node: compile(field.type, inner),
      hasDefault: 'default' in field,
    }))
    return {
      branch,
      isEmpty: () => fields.every(({ node }) => node.isEmpty()),
      toJson: (value) => {
        const object: JsonObject = {}
        for (const { name, node } of fields) setKey(object, name, node.toJson((value as JsonObject)[name]))
        return object
      },
      fromJson: (json, path) => {
        if (!isRecord(json)) throw new AvroMismatch(path, branch)
        const unknown = Object.keys(json).find((key) => !fields.some(({ name }) => name === key))
        if (unknown !== undefined) throw new AvroMismatch(`${path}.${unknown}`, 'a field of the schema')
        const record: Record<string, unknown> = {}
        for (const { name, node, hasDefault } of fields) {
          const value = Object.hasOwn(json, name) ? json[name]! : undefined
          // Undefined makes the library write the default; a union with null takes null.
          record[name] = value === undefined && hasDefault ? undefined : node.fromJson(value ?? null, `${path}.${name}`)
        }
        return record
      },
    }
  })
}

function arrayNode(items: Node, { arrays }: Scope): Node {
  arrays.push(items)
  return {
    branch: 'array',
    isEmpty: () => false,
    toJson: (value) => (value as unknown[]).map((item) => items.toJson(item)),
    fromJson: (json, path) => {
      if (!Array.isArray(json)) throw new AvroMismatch(path, 'array')
      return json.map((item, index) => items.fromJson(item, `${path}.${index}`))
    },
  }
}

function mapNode(values: Node): Node {
  return {
    branch: 'map',
    isEmpty: () => false,
    toJson: (value) => {
      const object: JsonObject = {}
      for (const [key, item] of Object.entries(value as object)) setKey(object, key, values.toJson(item))
      return object
    },
    fromJson: (json, path) => {
      if (!isRecord(json)) throw new AvroMismatch(path, 'map')
      return Object.fromEntries(Object.entries(json).map(([key, item]) => [key, values.fromJson(item, `${path}.${key}`)]))
    },
  }
}

function unionNode(branches: SchemaJson[], scope: Scope): Node {
  const nodes = branches.map((branch) => compile(branch, scope))
  return {
    branch: 'union',
    isEmpty: () => false,
    toJson: (value) => {
      if (value === null) return null
      const [branch, inner] = Object.entries(value as object)[0] as [string, unknown]
      const json = nodes.find((node) => node.branch === branch)!.toJson(inner)
      return scope.unions === 'wrap' ? { [branch]: json } : json
    },
    fromJson: (json, path) => {
      for (const node of nodes) {
        try {
          const value = node.fromJson(json, path)
          return node.branch === 'null' ? null : { [node.branch]: value }
        } catch (thrown) {
          if (!(thrown instanceof AvroMismatch)) throw thrown
        }
      }
      throw new AvroMismatch(path, `one of ${nodes.map(({ branch }) => branch).join(', ')}`)
    },
  }
}

function logicalNode(schema: { [key: string]: unknown }, scope: Scope): Node {
  const { logicalType: _, ...plain } = schema
  const inner = compile(plain, scope)
  return {
    ...inner,
    isEmpty: () => false,
    toJson: (value) => fromLogical(schema, value),
    fromJson: (json, path) => toLogical(schema, json, path),
  }
}

const enumNode = (branch: string, symbols: readonly string[]): Node => ({
  branch,
  isEmpty: () => false,
  toJson: (value) => value as string,
  fromJson: (json, path) => {
    if (typeof json !== 'string' || !symbols.includes(json)) throw new AvroMismatch(path, branch)
    return json
  },
})

const bytesNode = (branch: string, size?: number): Node => ({
  branch,
  isEmpty: () => size === 0,
  toJson: (value) => (value as Buffer).toString('base64'),
  fromJson: (json, path) => {
    const bytes = typeof json === 'string' ? Buffer.from(json, 'base64') : undefined
    const isExact = bytes !== undefined && bytes.toString('base64').replace(/=+$/, '') === (json as string).replace(/=+$/, '')
    if (!isExact || (size !== undefined && bytes.length !== size)) throw new AvroMismatch(path, `${branch} in base64`)
    return bytes
  },
})

function primitive(name: string): Node | undefined {
  if (name === 'bytes') return bytesNode('bytes')
  const node = primitives[name]
  return node === undefined ? undefined : { branch: name, isEmpty: () => name === 'null', ...node }
}

const exactly =
  (name: string, check: (json: Json) => boolean) =>
  (json: Json, path: string): unknown => {
    if (!check(json)) throw new AvroMismatch(path, name)
    return json
  }
const floating = (name: string) => ({
  // JSON has no NaN and no infinity.
  toJson: (value: unknown): Json => (Number.isFinite(Number(value)) ? Number(value) : null),
  fromJson: (json: Json, path: string): unknown => {
    if (typeof json === 'number') return json
    if (isRawNumber(json)) return Number(json.rawJSON)
    throw new AvroMismatch(path, name)
  },
})
const integer = (name: string, bits: 32n | 64n, make: (value: bigint) => unknown) => ({
  toJson: (value: unknown): Json => integerJson(BigInt(value as number)),
  fromJson: (json: Json, path: string): unknown => make(toBigint(json, bits, path, name)),
})

const primitives: Readonly<Record<string, Pick<Node, 'toJson' | 'fromJson'>>> = {
  null: { toJson: () => null, fromJson: exactly('null', (json) => json === null) },
  boolean: { toJson: (value) => value as boolean, fromJson: exactly('boolean', (json) => typeof json === 'boolean') },
  string: { toJson: (value) => value as string, fromJson: exactly('string', (json) => typeof json === 'string') },
  int: integer('int', 32n, Number),
  long: integer('long', 64n, (value) => value),
  float: floating('float'),
  double: floating('double'),
}

/** The library's long reads doubles and fails beyond 2^53. */
function longType(): avsc.Type {
  return avsc.types.LongType.__with({
    fromBuffer: (buffer: Buffer) => buffer.readBigInt64LE(),
    toBuffer: (value: bigint) => {
      const buffer = Buffer.alloc(8)
      buffer.writeBigInt64LE(value)
      return buffer
    },
    fromJSON: BigInt,
    toJSON: Number,
    isValid: (value: unknown) => typeof value === 'bigint',
    compare: (a: bigint, b: bigint) => (a === b ? 0 : a < b ? -1 : 1),
  })
}
