// Signs a request to the pipelines program with the vouching key: the program then believes the name in X-Approver. Pure.
import { createHash, createHmac } from 'node:crypto'

export interface UnsignedRequest {
  readonly method: 'GET' | 'POST'
  /** Path and query as sent. */
  readonly target: string
  readonly body: string
  readonly approver: string
  readonly timestampSeconds: number
  readonly nonce: string
}

export function signRequest(request: UnsignedRequest, key: string): Record<string, string> {
  const { method, target, body, nonce } = request
  const timestamp = String(request.timestampSeconds)
  const approver = toHeaderText(request.approver)
  const bodyHash = createHash('sha256').update(body).digest('hex')
  const text = [method, target, timestamp, nonce, bodyHash, approver].join('\n')
  return {
    'x-signature': `sha256=${createHmac('sha256', key).update(text).digest('hex')}`,
    'x-signature-timestamp': timestamp,
    'x-signature-nonce': nonce,
    'x-approver': approver,
  }
}

/** A header carries ASCII: other characters of a name, and the percent sign that marks them, are percent-encoded. */
const toHeaderText = (name: string): string => name.replace(/[^\x20-\x24\x26-\x7e]/gu, (character) => encodeURIComponent(character))
