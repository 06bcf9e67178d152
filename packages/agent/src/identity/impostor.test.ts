import { createHash, X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type Certificate, issueCertificate } from '@brokkr/runtime/certificates.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { liveWorld } from '../test-parts/live-world.ts'

/** Somebody at the broker's address, with this certificate; remembers what he was told. */
async function somebody(certificate: Certificate) {
  const seen: { path: string; authorization: string | undefined }[] = []
  const tried = { connections: 0 }
  const server = createServer({ cert: certificate.cert, key: certificate.key }, (request, response) => {
    seen.push({ path: request.url ?? '', authorization: request.headers.authorization })
    response.writeHead(503).end()
  })
  server.on('connection', () => tried.connections++)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return {
    seen,
    tried,
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
const pinOf = ({ cert }: Certificate) =>
  createHash('sha256')
    .update(new X509Certificate(cert).publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')

test('[X12] a server without the CA, name or pin of the broker never receives the PAK', async () => {
  const world = await liveWorld(await cluster({ controllers: false }))
  try {
    const [stack] = await world.deploy(1, 'kept')
    const authority = await issueCertificate({ commonName: 'authority', isCa: true })
    const foreign = await issueCertificate({ commonName: 'authority', isCa: true })
    const server = (issuer: Certificate, host: string) =>
      issueCertificate({ commonName: 'broker', issuer, usages: ['server'], hosts: [host] })
    const good = await server(authority, '127.0.0.1')
    const caFile = `${world.running.folder}/ca.pem`
    await writeFile(caFile, authority.cert)
    const cases = [
      { what: 'another authority', certificate: await server(foreign, '127.0.0.1'), env: {}, isTold: false },
      { what: 'another name', certificate: await server(authority, 'elsewhere.example'), env: {}, isTold: false },
      { what: 'another key', certificate: good, env: { BROKKR__AGENT__PIN: pinOf(foreign) }, isTold: false },
      { what: 'the broker itself', certificate: good, env: { BROKKR__AGENT__PIN: pinOf(good) }, isTold: true },
    ]
    for (const { what, certificate, env, isTold } of cases) {
      const other = await somebody(certificate)
      try {
        await world.running.kill()
        world.running = await world.start({ BROKKR__AGENT__BROKER_URL: other.url, BROKKR__AGENT__CA_FILE: caFile, ...env })
        await waitFor(`tries against ${what}`, () => (isTold ? other.seen.length : other.tried.connections) >= 3, {
          limitMs: 60_000,
          onTimeout: world.explain,
        })
        const { uid } = (await world.read(stack!.name))!.metadata
        await world.at.api('DELETE', `/api/v1/namespaces/${world.namespace}/configmaps/${stack!.name}`)
        await waitFor(
          `healing beside ${what}`,
          async () => ((await world.read(stack!.name)) ?? { metadata: { uid } }).metadata.uid !== uid,
          {
            limitMs: 60_000,
            onTimeout: world.explain,
          },
        )
        expect([what, other.seen.length > 0, other.seen.some(({ authorization }) => authorization !== undefined)]).toEqual([
          what,
          isTold,
          isTold,
        ])
      } finally {
        other.close()
      }
    }
  } finally {
    await world.stop()
  }
}, 300_000)
