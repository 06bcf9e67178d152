// An HTTPS server that answers whatever a test wants: for what no API server does, and clients must survive all the same.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { type CertificateRequest, issueCertificate, type KeyPair } from '../certificate.ts'

export type Answer = (request: IncomingMessage, response: ServerResponse) => void

const DAY_MS = 86_400_000

export const newCa = (name = 'test CA'): KeyPair =>
  issueCertificate({ commonName: name, ca: true, notBeforeMs: Date.now() - DAY_MS, notAfterMs: Date.now() + DAY_MS })

export const newLeaf = (issuer: KeyPair, more: Partial<CertificateRequest> = {}): KeyPair =>
  issueCertificate({
    commonName: 'test',
    issuer,
    usage: 'server',
    hosts: ['127.0.0.1'],
    notBeforeMs: Date.now() - DAY_MS,
    notAfterMs: Date.now() + DAY_MS,
    ...more,
  })

/** Serves ConfigMaps by discovery; everything else is up to `answer`. */
export async function strangeServer(answer: Answer, options: { ca?: KeyPair; leaf?: KeyPair } = {}) {
  const ca = options.ca ?? newCa()
  const server = createServer(options.leaf ?? newLeaf(ca), (request, response) => {
    if (request.url === '/api') return json(response, 200, CORE)
    if (request.url === '/apis') return json(response, 200, { kind: 'APIGroupDiscoveryList', items: [] })
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    server,
    ca,
    config: { server: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, namespace: 'default', ca: { pem: ca.cert } },
  }
}

export function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

const CORE = {
  kind: 'APIGroupDiscoveryList',
  items: [
    {
      versions: [
        { version: 'v1', resources: [{ resource: 'configmaps', responseKind: { kind: 'ConfigMap' }, scope: 'Namespaced', verbs: [] }] },
      ],
    },
  ],
}
