// All keys and certificates of one control plane, by the name of their file.
import { issueCertificate, issueSigningKeys } from './pki.ts'
import type { PlaneFile } from './plane-files.ts'

export function issuePlaneFiles() {
  const ca = issueCertificate({ subject: { cn: 'practice-ca' }, ca: true })
  const server = issueCertificate({
    subject: { cn: 'kube-apiserver' },
    issuer: ca,
    usage: ['server'],
    dns: serverNames,
    ips: serverAddresses,
  })
  const admin = issueCertificate({ subject: { cn: 'admin', o: ['system:masters'] }, issuer: ca, usage: ['client'] })
  const kubelet = issueCertificate({ subject: { cn: 'kubelet-client', o: ['system:masters'] }, issuer: ca, usage: ['client'] })
  // An authority of its own: whoever it signs for may name any user in a header.
  const frontCa = issueCertificate({ subject: { cn: 'practice-front-proxy-ca' }, ca: true })
  const front = issueCertificate({ subject: { cn: 'front-proxy-client' }, issuer: frontCa, usage: ['client'] })
  const accounts = issueSigningKeys()
  return {
    caCert: ca.certPem,
    caKey: ca.keyPem,
    serverCert: server.certPem,
    serverKey: server.keyPem,
    adminCert: admin.certPem,
    adminKey: admin.keyPem,
    kubeletCert: kubelet.certPem,
    kubeletKey: kubelet.keyPem,
    frontCaCert: frontCa.certPem,
    frontCert: front.certPem,
    frontKey: front.keyPem,
    accountsKey: accounts.privatePem,
    accountsPub: accounts.publicPem,
  } satisfies Partial<Record<PlaneFile, string>>
}

const serverNames = ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc']
/** Loopback, and the first address of the service range. */
const serverAddresses = ['127.0.0.1', '10.96.0.1']
