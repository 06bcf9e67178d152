// An HTTPS server with responses chosen by the test, for behavior that no API server shows and clients must survive.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type Certificate, type CertificateRequest, issueCertificate } from '@brokkr/runtime/certificates.ts'
import { onTestFinished } from 'vitest'

export type Answer = (request: IncomingMessage, response: ServerResponse) => void

export const newCa = (commonName = 'test CA'): Promise<Certificate> => issueCertificate({ commonName, isCa: true })

export const newLeaf = (issuer: Certificate, more: Partial<CertificateRequest> = {}): Promise<Certificate> =>
  issueCertificate({ commonName: 'test', issuer, usages: ['server'], hosts: ['127.0.0.1'], ...more })

/** Serves ConfigMaps by discovery; everything else is up to `answer`. */
export async function strangeServer(answer: Answer, options: { ca?: Certificate; leaf?: Certificate } = {}) {
  const ca = options.ca ?? (await newCa())
  const server = createServer(options.leaf ?? (await newLeaf(ca)), (request, response) => {
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
