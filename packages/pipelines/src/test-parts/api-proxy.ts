// Stands between a client and a real API server: puts bytes into open watches, holds watches back, and loses requests or answers of calls.
import { createServer as createPlainServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { KubeConfig } from '@brokkr/kube'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { onTestFinished } from 'vitest'

export interface Call {
  readonly method: string
  readonly path: string
}
/** `before`: the request is lost. `after`: the server has executed it, its answer is lost. */
export type Fate = 'pass' | 'before' | 'after'
/** `onFault` is called before the connection ends: a test kills the caller there. */
export type Decision = Fate | { readonly fate: 'before' | 'after'; readonly onFault: () => void }

export interface ApiProxy {
  readonly config: KubeConfig
  /** Decides over every call that is no watch; replaces the decision before. */
  decide(decision: (call: Call) => Decision): void
  /** Writes bytes into every open watch. */
  spoil(bytes: string): void
  /** Holds events of watches back until `release`. */
  hold(): void
  release(): void
  /** Watches opened so far. */
  opened(): number
}

/** `isPlain`: http to the client, because every lost answer ends a connection and a new one with TLS costs the processor milliseconds. */
export async function openApiProxy(
  target: { url: string; caPem: string; token: string },
  onEnd: (close: () => void) => void = onTestFinished,
  { isPlain = false }: { readonly isPlain?: boolean } = {},
): Promise<ApiProxy> {
  const ca = isPlain ? null : await issueCertificate({ commonName: 'test CA', isCa: true })
  const watches = new Map<ServerResponse, IncomingMessage>()
  let decide: (call: Call) => Decision = () => 'pass'
  let isHeld = false
  let opened = 0
  const pass = (from: IncomingMessage, to: ServerResponse, fate: Fate, isWatch: boolean, onFault: () => void): void => {
    const headers = { ...from.headers, host: new URL(target.url).host }
    const onward = request(target.url + from.url, { method: from.method, headers, ca: target.caPem }, (answer) => {
      if (fate === 'after') {
        answer.resume().on('end', () => {
          onFault()
          from.socket.destroy()
        })
        return
      }
      to.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(to)
      if (isWatch) {
        watches.set(to, answer)
        opened++
        if (isHeld) answer.unpipe(to)
      }
    })
    onward.on('error', () => to.destroy())
    to.on('close', () => {
      watches.delete(to)
      onward.destroy()
    })
    from.pipe(onward)
  }
  const handle = (from: IncomingMessage, to: ServerResponse): void => {
    const path = from.url ?? ''
    const isWatch = path.includes('watch=1') || path.includes('watch=true')
    const decision = isWatch ? 'pass' : decide({ method: from.method ?? '', path: path.split('?')[0] ?? '' })
    const { fate, onFault } = typeof decision === 'string' ? { fate: decision, onFault: () => {} } : decision
    if (fate !== 'before') return pass(from, to, fate, isWatch, onFault)
    onFault()
    from.socket.destroy()
  }
  const server =
    ca === null
      ? createPlainServer(handle)
      : createServer(await issueCertificate({ commonName: 'test', issuer: ca, usages: ['server'], hosts: ['127.0.0.1'] }), handle)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onEnd(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `${isPlain ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`
  const token = { kind: 'value', value: target.token } as const
  return {
    config: { server: url, namespace: 'default', token, ...(ca === null ? {} : { ca: { pem: ca.cert } }) },
    decide: (decision) => void (decide = decision),
    spoil: (bytes) => {
      for (const to of watches.keys()) to.write(bytes)
    },
    hold: () => {
      isHeld = true
      for (const [to, answer] of watches) answer.unpipe(to).pause()
    },
    release: () => {
      isHeld = false
      for (const [to, answer] of watches) answer.pipe(to)
    },
    opened: () => opened,
  }
}
