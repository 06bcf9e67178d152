// Verifies the signature of a manifest against the keys of this cluster, so that a compromised broker cannot inject one. The signature is
// a comment in the first line and covers the rest. Pure.
import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import type { Problem } from '../problem.ts'

export interface SignatureRules {
  readonly isRequired: boolean
  /** Id → Ed25519 public key, PEM or base64 of its 32 bytes. */
  readonly keys: Readonly<Record<string, string>>
}

const firstLine = /^# brokkr-signature: ([\w.-]{1,64}) ([A-Za-z0-9+/]{86}==)\r?\n/
/** The signed bytes start with their purpose, so a signed manifest cannot be replayed as a work order. */
const domains = { manifest: 'brokkr-manifest-v1\n', 'work order': 'brokkr-work-order-v1\n' }
export type Signed = keyof typeof domains

/** Signed bytes for the text after the signature line. */
export const toSignedBytes = (body: string, what: Signed = 'manifest'): Buffer => Buffer.from(domains[what] + body, 'utf8')

/** Null: valid, or signatures are not required. */
export function checkSignature(text: string, rules: SignatureRules, what: Signed = 'manifest'): Problem | null {
  if (!rules.isRequired) return null
  const match = firstLine.exec(text)
  if (!match) return refused(`the ${what} bears no signature: its first line must be "# brokkr-signature: <key id> <base64>"`)
  const [line, keyId = '', signature = ''] = match
  const key = Object.hasOwn(rules.keys, keyId) ? rules.keys[keyId] : undefined
  if (key === undefined) return refused(`the ${what} is signed with key ${keyId}, which this cluster does not know (agent.signature_keys)`)
  const isGood = verify(null, toSignedBytes(text.slice(line.length), what), parsePublicKey(key), Buffer.from(signature, 'base64'))
  return isGood ? null : refused(`the signature of key ${keyId} does not belong to this ${what}`)
}

const refused = (message: string): Problem => ({ phase: 'failed', code: 'signature_refused', message })

/** Throws if the text is no Ed25519 key; also used to check the configuration. */
export function parsePublicKey(text: string): KeyObject {
  const key = text.includes('BEGIN') ? createPublicKey(text) : createPublicKey({ key: toSpki(text), format: 'der', type: 'spki' })
  if (key.asymmetricKeyType !== 'ed25519') throw new TypeError('is not an Ed25519 public key')
  return key
}

const spkiPrefix = Buffer.from('302a300506032b6570032100', 'hex')

function toSpki(text: string): Buffer {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length !== 32) throw new TypeError('is neither PEM nor the base64 of 32 bytes')
  return Buffer.concat([spkiPrefix, bytes])
}
