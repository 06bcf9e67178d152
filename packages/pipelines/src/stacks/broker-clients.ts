// Clients of brokers, opened with the PAK of a Secret beside the Pipeline. Connections are shared; the PAK is read at each use.
import type { Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { SecretContent } from '../strategies/strategy.ts'
import { BrokerClient } from './broker-client.ts'
import type { StackAccess } from './stack-access.ts'

export interface BrokerClients {
  /** A text: why there is no client. */
  open(access: StackAccess, secret: SecretContent | null): BrokerClient | { readonly reason: string; readonly error: string }
}

/** `operators` reaches every address, `users` only those that a user of the cluster may name. */
export function createBrokerClients(outbound: { operators: Outbound; users: Outbound }): BrokerClients {
  return {
    open({ url, isOperators, secretName }, secret) {
      if (secret === null) return { reason: 'SecretNotFound', error: `the Secret "${secretName}" does not exist` }
      const pak = Buffer.from(secret.data['pak'] ?? [])
        .toString('utf8')
        .trim()
      if (pak === '') return { reason: 'SecretIncomplete', error: `the Secret "${secretName}" has no key "pak"` }
      return new BrokerClient(isOperators ? outbound.operators : outbound.users, { url, pak })
    },
  }
}
