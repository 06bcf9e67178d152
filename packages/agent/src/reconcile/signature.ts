// Where the operator wants it, a manifest counts only with a signature of a key this cluster knows, so that a broker in foreign
// hands can invent nothing. It stands in the first line, as a comment, over everything after that line. Pure.
import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { Problem } from './problem.ts'

export interface SignatureRules {
  readonly isRequired: boolean
  /** Id → Ed25519 public key, PEM or base64 of its 32 bytes. */
  readonly keys: Readonly<Record<string, string>>
}

const firstLine = /^# brokkr-signature: ([\w.-]{1,64}) ([A-Za-z0-9+/]{86}==)\r?\n/
const domain = 'brokkr-manifest-v1\n'

/** The bytes that are signed, from the text after the signature's own line. */
export const signedBytes = (body: string): Buffer => Buffer.from(domain + body, 'utf8')

/** Null: good, or not asked for. */
export function refuseUnsigned(text: string, rules: SignatureRules): Problem | null {
  if (!rules.isRequired) return null
  const found = firstLine.exec(text)
  if (!found) return refused('the manifest bears no signature: its first line must be "# brokkr-signature: <key id> <base64>"')
  const [line, keyId = '', signature = ''] = found
  const key = Object.hasOwn(rules.keys, keyId) ? rules.keys[keyId] : undefined
  if (key === undefined) return refused(`the manifest is signed with key ${keyId}, which this cluster does not know (agent.signature_keys)`)
  const isGood = verify(null, signedBytes(text.slice(line.length)), publicKey(key), Buffer.from(signature, 'base64'))
  return isGood ? null : refused(`the signature of key ${keyId} does not belong to this manifest`)
}

const refused = (message: string): Problem => ({ phase: 'failed', code: 'signature_refused', message })

/** Throws for what is no Ed25519 key: the configuration is checked with it. */
export function publicKey(text: string): KeyObject {
  const key = text.includes('BEGIN') ? createPublicKey(text) : createPublicKey({ key: spkiOf(text), format: 'der', type: 'spki' })
  if (key.asymmetricKeyType !== 'ed25519') throw new TypeError('is not an Ed25519 public key')
  return key
}

const spkiPrefix = Buffer.from('302a300506032b6570032100', 'hex')

function spkiOf(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length !== 32) throw new TypeError('is neither PEM nor the base64 of 32 bytes')
  return Buffer.concat([spkiPrefix, bytes])
}
