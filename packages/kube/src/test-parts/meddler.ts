// Stands between a client and a real API server, passes everything on, and puts bytes of a test's choice into open watches.
import type { ServerResponse } from 'node:http'
import { request } from 'node:https'
import type { KubeConfig } from '../auth/kube-config.ts'
import { strangeServer } from './strange-server.ts'

export async function meddler(cluster: {
  url: string
  caPem: string
  token: string
}): Promise<{ config: KubeConfig; spoil(bytes: string): void; connectionCount(): number }> {
  let opened = 0
  const watches = new Set<ServerResponse>()
  const { config } = await strangeServer((from, to) => {
    const onward = request(
      cluster.url + from.url,
      { method: from.method, headers: { ...from.headers, host: new URL(cluster.url).host }, ca: cluster.caPem },
      (answer) => {
        to.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(to)
        if (!from.url?.includes('watch=1')) return
        watches.add(to)
        opened++
      },
    )
    onward.on('error', () => to.destroy())
    to.on('close', () => {
      watches.delete(to)
      onward.destroy()
    })
    from.pipe(onward)
  })
  return {
    config: { ...config, token: { kind: 'value', value: cluster.token } },
    /** Watches so far. */
    connectionCount: () => opened,
    spoil: (bytes) => {
      for (const watch of watches) watch.write(bytes)
    },
  }
}
