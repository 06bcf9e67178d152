// Serves admission with a certificate that is replaced while the port stays open: from a Secret whose certificates the leader renews, or from
// files that another program renews.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type AdmissionServer, type Kube, startAdmissionServer, syncWebhookCertificate } from '@brokkr/kube'
import type { Certificate } from '@brokkr/runtime/certificates.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { fieldManager } from './names.ts'
import { admissionHandlers } from './webhook.ts'

export interface WebhookSettings {
  readonly host: string
  readonly port: number
  /** Null: the certificates are in a Secret and renewed by the leader. */
  readonly certDir: string | null
  readonly secret: { readonly name: string; readonly namespace: string }
  readonly hosts: readonly string[]
  /** ValidatingWebhookConfiguration whose caBundle the leader writes. */
  readonly configuration: string
}

export interface Webhook {
  /** Null until a certificate is served. */
  readonly port: () => number | null
  stop(): Promise<void>
}

/** A change is served within 10 s. */
const checkMs = 5_000

export function startWebhook(
  deps: { readonly kube: Kube; readonly clock: Clock; readonly log: Log; readonly isLeader: () => boolean },
  settings: WebhookSettings,
): Webhook {
  const stopping = new AbortController()
  let server: AdmissionServer | undefined
  let served = ''
  const running = run()

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      await check().catch((error: unknown) => {
        if (!stopping.signal.aborted) deps.log.warn('webhook certificate not read', { error: errorText(error) })
      })
      // A standby waits for the leader, which creates the certificate within a moment.
      await deps.clock.sleep(server === undefined ? checkMs / 10 : checkMs, stopping.signal).catch(() => undefined)
    }
  }

  async function check(): Promise<void> {
    const certificate = await (settings.certDir === null ? fromSecret() : fromFiles(settings.certDir))
    if (certificate === undefined || certificate.cert === served) return
    if (server === undefined) server = await startAdmissionServer(deps, { ...settings, certificate, handlers: admissionHandlers })
    else server.setCertificate(certificate)
    deps.log.info('webhook certificate served', { port: server.port })
    served = certificate.cert
  }

  const fromSecret = (): Promise<Certificate | undefined> =>
    syncWebhookCertificate(deps, {
      secret: settings.secret,
      hosts: settings.hosts,
      configurations: [{ kind: 'ValidatingWebhookConfiguration', name: settings.configuration }],
      lead: deps.isLeader(),
      fieldManager,
      signal: stopping.signal,
    })

  return {
    port: () => server?.port ?? null,
    stop: async () => {
      stopping.abort(new Error('the webhook stops'))
      await running
      await server?.close()
    },
  }
}

/** As cert-manager mounts them. */
async function fromFiles(dir: string): Promise<Certificate> {
  const [cert, key] = await Promise.all(['tls.crt', 'tls.key'].map((name) => readFile(join(dir, name), 'utf8')))
  return { cert: cert!, key: key! }
}
