// Issues all keys and certificates of one control plane, by file.
import { generateSigningKeys, issueCertificate } from '@brokkr/runtime/certificates.ts'
import type { PlaneFile } from './plane-files.ts'

export async function issuePlaneFiles() {
  const ca = await issueCertificate({ commonName: 'practice-ca', isCa: true })
  const server = await issueCertificate({
    commonName: 'kube-apiserver',
    issuer: ca,
    usages: ['server'],
    hosts: [...serverNames, ...serverAddresses],
  })
  const admin = await issueCertificate({ commonName: 'admin', organizations: ['system:masters'], issuer: ca, usages: ['client'] })
  const kubelet = await issueCertificate({
    commonName: 'kubelet-client',
    organizations: ['system:masters'],
    issuer: ca,
    usages: ['client'],
  })
  // A separate CA, because the API server accepts any user name in a header from clients of this CA.
  const frontCa = await issueCertificate({ commonName: 'practice-front-proxy-ca', isCa: true })
  const front = await issueCertificate({ commonName: 'front-proxy-client', issuer: frontCa, usages: ['client'] })
  const accounts = generateSigningKeys()
  return {
    caCert: ca.cert,
    caKey: ca.key,
    serverCert: server.cert,
    serverKey: server.key,
    adminCert: admin.cert,
    adminKey: admin.key,
    kubeletCert: kubelet.cert,
    kubeletKey: kubelet.key,
    frontCaCert: frontCa.cert,
    frontCert: front.cert,
    frontKey: front.key,
    accountsKey: accounts.privatePem,
    accountsPub: accounts.publicPem,
  } satisfies Partial<Record<PlaneFile, string>>
}

const serverNames = ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc']
/** Loopback, and the first address of the service range. */
const serverAddresses = ['127.0.0.1', '10.96.0.1']
