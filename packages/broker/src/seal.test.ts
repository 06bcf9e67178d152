import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createSeal, UnsealFailed } from './seal.ts'

const place = { table: 'deployment_objects', column: 'yaml_sealed', id: '0a000000-0000-4000-8000-000000000001' }

test('encrypted texts decrypt to themselves, including empty ones', () => {
  const seal = createSeal([randomBytes(32)])
  for (const text of ['', 'a: 1\n', '🗝️ ключ', 'x'.repeat(1 << 20)]) expect(seal.open(place, seal.seal(place, text))).toBe(text)
})

test('a changed bit or another row, column or table prevents decryption', () => {
  const seal = createSeal([randomBytes(32)])
  const sealed = seal.seal(place, 'password: hunter2')
  for (let byte = 0; byte < sealed.length; byte += 1) {
    const broken = Buffer.from(sealed)
    broken[byte]! ^= 1
    expect(() => seal.open(place, broken), `byte ${byte}`).toThrow(UnsealFailed)
  }
  for (const moved of [
    { ...place, id: '0a000000-0000-4000-8000-000000000002' },
    { ...place, column: 'other' },
    { ...place, table: 'other' },
  ]) {
    expect(() => seal.open(moved, sealed)).toThrow(UnsealFailed)
  }
  expect(() => seal.open(place, sealed.subarray(0, 20))).toThrow(UnsealFailed)
})

test('a text encrypted in a worker decrypts only in its own context', async () => {
  const seal = createSeal([randomBytes(32), randomBytes(32)])
  for (const text of ['', '🗝️ ключ', 'x'.repeat(1 << 20)]) {
    const sealed = await seal.sealInThread(place, new TextEncoder().encode(text))
    expect([seal.open(place, sealed), seal.reseal(place, sealed), seal.canOpen({ ...place, column: 'other' }, sealed)]).toEqual([
      text,
      'kept',
      false,
    ])
  }
})

test('a key ring decrypts with all keys and encrypts with the first', () => {
  const [old, fresh] = [randomBytes(32), randomBytes(32)]
  const ring = createSeal([fresh, old])
  expect(ring.open(place, createSeal([old]).seal(place, 'before'))).toBe('before')
  expect(() => createSeal([old]).open(place, ring.seal(place, 'after'))).toThrow(UnsealFailed)
})

test('resealing uses the first key and names values that no key decrypts', () => {
  const [old, fresh] = [randomBytes(32), randomBytes(32)]
  const ring = createSeal([fresh, old])
  const moved = ring.reseal(place, createSeal([old]).seal(place, 'text'))
  expect(createSeal([fresh]).open(place, moved as Buffer)).toBe('text')
  expect(ring.reseal(place, moved as Buffer)).toBe('kept')
  expect(ring.reseal(place, createSeal([randomBytes(32)]).seal(place, 'text'))).toBe('broken')
})

test('a key ring lists fingerprints with the encrypting key first', () => {
  const [one, two] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  expect(createSeal([one, two]).fingerprints).toEqual(['72cd6e8422c407fb', '75877bb41d393b5f'])
})

test('nonces never repeat', () => {
  const seal = createSeal([randomBytes(32)])
  const nonces = new Set(Array.from({ length: 20_000 }, () => seal.seal(place, '').subarray(1, 13).toString('latin1')))
  expect(nonces.size).toBe(20_000)
})

test('an encryption key of another length is refused', () => {
  expect(() => createSeal([randomBytes(16)])).toThrow('32 bytes')
})
