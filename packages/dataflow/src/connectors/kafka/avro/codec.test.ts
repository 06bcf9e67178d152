import { isRawNumber, type Json, rawNumber } from '@brokkr/contract/dataflow/language/json.ts'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type AvroCodec, AvroMismatch, compileAvro } from './codec.ts'

const roundTrip = (schema: unknown, json: Json, unions: 'unwrap' | 'wrap' = 'unwrap'): Json => {
  return encodeAndDecode(compileAvro([JSON.stringify(schema)], unions), json)
}
const encodeAndDecode = (codec: AvroCodec, json: Json): Json =>
  codec.toJson(codec.type.fromBuffer(codec.type.toBuffer(codec.fromJson(json))))
/** Any code points except surrogates. `fc.string({ unit: 'binary' })` generates the same, but takes 1.7 s of CPU to set up. */
const anyText = fc
  .array(fc.integer({ min: 0, max: 0x10_ffff }).filter((code) => code < 0xd800 || code > 0xdfff))
  .map((codes) => String.fromCodePoint(...codes))
const text = (json: Json) => JSON.stringify(json)
const record = (type: unknown) => ({ type: 'record', name: 'r', namespace: 'n', fields: [{ name: 'a', type }] })

describe('values are encoded and decoded without change', () => {
  test.each([
    ['null', null],
    ['boolean', true],
    ['int', -5],
    ['long', 9007199254740991],
    ['long', rawNumber('1152921504606846976')],
    ['long', rawNumber('-9223372036854775808')],
    ['double', 1.5],
    ['string', 'ä\u0000'],
    ['bytes', 'AAEC/w=='],
    [{ type: 'fixed', name: 'f', size: 2 }, 'AAE='],
    [{ type: 'enum', name: 'e', symbols: ['A', 'B'] }, 'B'],
    [{ type: 'array', items: 'long' }, [1, 2]],
    [
      { type: 'map', values: 'string' },
      { x: 'y', __proto_: 'z' },
    ],
    [['null', 'string'], 'x'],
    [['null', 'string'], null],
    [['null', 'long', 'string'], 'x'],
    [{ type: 'bytes', logicalType: 'decimal', precision: 30, scale: 2 }, rawNumber('-1234567890123456789012345678.90')],
    [{ type: 'bytes', logicalType: 'decimal', precision: 4, scale: 2 }, 0.05],
    [{ type: 'fixed', name: 'd', size: 8, logicalType: 'decimal', precision: 10, scale: 0 }, -128],
    [{ type: 'int', logicalType: 'date' }, '2026-02-28'],
    [{ type: 'int', logicalType: 'date' }, '1969-12-31'],
    [{ type: 'long', logicalType: 'timestamp-millis' }, '2026-01-02T03:04:05.678Z'],
    [{ type: 'long', logicalType: 'timestamp-micros' }, '2026-01-02T03:04:05.123456Z'],
    [{ type: 'long', logicalType: 'timestamp-micros' }, '1960-01-02T03:04:05.000001Z'],
    [{ type: 'long', logicalType: 'timestamp-micros' }, '2026-01-02T03:04:05Z'],
    [{ type: 'long', logicalType: 'local-timestamp-micros' }, '2026-01-02T03:04:05.100'],
    [{ type: 'int', logicalType: 'time-millis' }, '23:59:59.999'],
    [{ type: 'string', logicalType: 'uuid' }, '6f9619ff-8b86-d011-b42d-00cf4fc964ff'],
    [record(['null', { type: 'record', name: 'inner', fields: [{ name: 'b', type: ['null', 'n.r'] }] }]), { a: { b: { a: null } } }],
  ] as [unknown, Json][])('%j %j', (schema, json) => {
    expect(text(roundTrip(schema, json))).toBe(text(json))
  })

  test('every long and every text is encoded and decoded without change', () => {
    const fields = [
      { name: 'a', type: 'long' },
      { name: 'b', type: ['null', 'string'] },
    ]
    const codec = compileAvro([JSON.stringify({ type: 'record', name: 'r', fields })])
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), anyText, (long, string) => {
        const json = { a: Number.isSafeInteger(Number(long)) ? Number(long) : rawNumber(long.toString()), b: string }
        expect(text(encodeAndDecode(codec, json))).toBe(text(json))
      }),
    )
  })
})

test('a wrapped union contains the name of its branch', () => {
  expect(roundTrip(record(['null', 'string']), { a: 'x' }, 'wrap')).toEqual({ a: { string: 'x' } })
  const nested = record(['null', { type: 'record', name: 'inner', fields: [{ name: 'b', type: 'int' }] }])
  expect(roundTrip(nested, { a: { b: 1 } }, 'wrap')).toEqual({ a: { 'n.inner': { b: 1 } } })
})

test('a long in a double is exact, and NaN becomes null', () => {
  const codec = compileAvro(['"double"'])
  expect(codec.toJson(codec.type.fromBuffer(codec.type.toBuffer(Number.NaN)))).toBeNull()
  expect(isRawNumber(roundTrip('long', rawNumber('9007199254740993')))).toBe(true)
})

test('a reader schema can drop, add and promote fields', () => {
  const writer = compileAvro([
    JSON.stringify({
      type: 'record',
      name: 'r',
      fields: [
        { name: 'a', type: 'int' },
        { name: 'gone', type: 'string', default: 'd' },
      ],
    }),
  ])
  const reader = compileAvro([
    JSON.stringify({
      type: 'record',
      name: 'r',
      fields: [
        { name: 'a', type: 'long' },
        { name: 'new', type: ['null', 'string'], default: null },
      ],
    }),
  ])
  const bytes = writer.type.toBuffer(writer.fromJson({ a: 7 }))
  expect(writer.toJson(writer.type.fromBuffer(bytes))).toEqual({ a: 7, gone: 'd' })
  expect(reader.toJson(reader.type.fromBuffer(bytes, reader.type.createResolver(writer.type)))).toEqual({ a: 7, new: null })
})

test('a schema can reference another schema', () => {
  const inner = JSON.stringify({ type: 'record', name: 'inner', namespace: 'n', fields: [{ name: 'b', type: 'int' }] })
  const outer = JSON.stringify({ type: 'record', name: 'outer', namespace: 'n', fields: [{ name: 'a', type: 'n.inner' }] })
  const codec = compileAvro([inner, outer])
  expect(codec.toJson(codec.type.fromBuffer(codec.type.toBuffer(codec.fromJson({ a: { b: 1 } }))))).toEqual({ a: { b: 1 } })
})

describe('a type mismatch names path and type, not the value', () => {
  test.each([
    ['int', 2147483648, '$ does not fit int'],
    ['long', rawNumber('9223372036854775808'), '$ does not fit long'],
    ['long', 1.5, '$ does not fit long'],
    ['string', 1, '$ does not fit string'],
    ['bytes', 'secret!', '$ does not fit bytes in base64'],
    [{ type: 'enum', name: 'e', symbols: ['A'] }, 'B', '$ does not fit e'],
    [{ type: 'int', logicalType: 'date' }, '2026-02-30', '$ does not fit date'],
    [{ type: 'long', logicalType: 'timestamp-micros' }, 'yesterday', '$ does not fit timestamp-micros'],
    [{ type: 'bytes', logicalType: 'decimal', precision: 3, scale: 1 }, 123.4, '$ does not fit decimal(3, 1)'],
    [{ type: 'bytes', logicalType: 'decimal', precision: 5, scale: 1 }, 1.25, '$ does not fit decimal(5, 1)'],
    [record('string'), { a: 'x', extra: 1 }, '$.extra does not fit a field of the schema'],
    [record({ type: 'array', items: ['null', 'int'] }), { a: [1, 'secret'] }, '$.a.1 does not fit one of null, int'],
    [record('string'), {}, '$.a does not fit string'],
  ] as [unknown, Json, string][])('%j %j', (schema, json, message) => {
    const codec = compileAvro([JSON.stringify(schema)])
    expect(() => codec.fromJson(json)).toThrow(AvroMismatch)
    expect(() => codec.fromJson(json)).toThrow(message)
  })
})

test('a schema with zero-byte array items is rejected', () => {
  expect(() => compileAvro(['{"type":"array","items":"null"}'])).toThrow('an array whose items take no bytes')
  expect(() => compileAvro(['{"type":"array","items":{"type":"record","name":"e","fields":[]}}'])).toThrow('items take no bytes')
  expect(() =>
    compileAvro([JSON.stringify({ type: 'record', name: 'r', fields: [{ name: 'all', type: { type: 'array', items: 'r' } }] })]),
  ).not.toThrow()
})
