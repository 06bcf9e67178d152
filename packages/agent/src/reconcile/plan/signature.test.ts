import { generateKeyPairSync, sign } from 'node:crypto'
import { expect, test } from 'vitest'
import { checkSignature, parsePublicKey, toSignedBytes } from './signature.ts'

const pair = () => {
  const { publicKey: open, privateKey } = generateKeyPairSync('ed25519')
  return {
    pem: open.export({ type: 'spki', format: 'pem' }).toString(),
    raw: open.export({ type: 'spki', format: 'der' }).subarray(12).toString('base64'),
    privateKey,
  }
}
const [ours, theirs] = [pair(), pair()]
const body = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n'
const signed = (id: string, key: typeof ours.privateKey, text = body) =>
  `# brokkr-signature: ${id} ${sign(null, toSignedBytes(text), key).toString('base64')}\n${body}`
const rules = { isRequired: true, keys: { ci: ours.pem, raw: ours.raw } }

test.each([
  ['signed by a key we know', signed('ci', ours.privateKey)],
  ['the same key in its short form', signed('raw', ours.privateKey)],
])('%s: accepted', (_what, text) => {
  expect(checkSignature(text, rules)).toBeNull()
})

test.each([
  ['unsigned', body],
  ['signed by a key that calls itself like ours', signed('ci', theirs.privateKey)],
  ['a key we do not know', signed('other', theirs.privateKey)],
  ['a name that every object has', signed('toString', ours.privateKey)],
  ['changed after it was signed', `${signed('ci', ours.privateKey)}  x: 1\n`],
  ['the signature of another text', signed('ci', ours.privateKey, 'other')],
  ['a signature further down', `\n${signed('ci', ours.privateKey)}`],
])('%s: rejected', (_what, text) => {
  expect(checkSignature(text, rules)).toMatchObject({ phase: 'failed', code: 'signature_refused' })
})

test('signatures are optional by default, and a key that is not Ed25519 is rejected', () => {
  expect(checkSignature(body, { isRequired: false, keys: {} })).toBeNull()
  for (const text of [
    '',
    'AAAA',
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'pem' }).toString(),
  ])
    expect(() => parsePublicKey(text)).toThrow(TypeError)
})
